#!/bin/sh
# Runs all tests, of the root module and of the nested ones, against a real Postgres.
#
#	./test.sh                    everything
#	./test.sh -run Claim -v      any flags of go test
#	DISTRIBUTED_URL=postgres://… ./test.sh -run Distributed
#	                             the tests that need a Citus, on the one that is there; else they are skipped
#
# Postgres is the server of DATABASE_URL, else the binaries of this machine, else what apt-get installs
# now. Nothing runs without it. Other programs serve single parts of the tests: optional lists them. One
# that is neither here nor to be installed leaves its parts out, and the last lines name them. In CI
# (the environment variable is not empty) that is a failure. No server has to run: each test binary
# starts its own.
set -eu
cd "$(dirname "$0")"

fail() {
	echo "test.sh: $*" >&2
	exit 1
}

have_postgres() {
	[ -n "${DATABASE_URL:-}" ] && return
	[ -n "${PGTEST_BIN:-}" ] && return # the tests say what is wrong with it
	command -v initdb >/dev/null 2>&1 && return
	for initdb in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb /usr/libexec/postgresql*/initdb \
		/opt/homebrew/opt/postgresql@*/bin/initdb /usr/local/opt/postgresql@*/bin/initdb; do
		[ -x "$initdb" ] && return
	done
	return 1
}

# optional prints a line for each program that only some parts of the tests need: the command, the
# environment variable that may name its file (- if none does), Debian's package, Homebrew's, the parts.
#
# A test of these parts finds the program as this file does: by the variable, else on PATH. It skips
# where this finds nothing, and only there: what a program that is here cannot do is a failure.
optional() {
	cat <<-'END'
		pgbouncer PGTEST_PGBOUNCER pgbouncer pgbouncer stores and journal behind PgBouncer
		redis-server - redis-server redis server/redisstore; examples/integrations/stores: on Redis; server/pgstore/bench: the comparison with Redis
		promtool - prometheus prometheus examples/integrations/observe: alerts and dashboard in Prometheus' own check
		rabbitmq-server - rabbitmq-server rabbitmq examples/consumer: RabbitMQ
		curl - curl curl examples/integrations/clients: the calls of curl
		python3 - python3 python childkey/clients and examples/languages: the Python client
		node - nodejs node childkey/clients and examples/languages: the TypeScript client; examples/integrations/clients: the clients of npm
		npm - npm node childkey/clients: types and package of the TypeScript client; examples/integrations/clients: the clients of npm; server/console/browsertest: axe-core
		chromium CHROMIUM chromium chromium server/console/browsertest: the console in a browser; childkey/clients: the TypeScript client in one
	END
}

# Debian and Homebrew have servers in folders that are not on every user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/opt/homebrew/sbin
export PATH

# have PROGRAM VARIABLE tells whether the tests will find the program.
have() {
	if [ "$2" != - ]; then
		eval "file=\${$2:-}"
		# shellcheck disable=SC2154 # eval sets it
		[ -z "$file" ] || return 0 # the tests say what is wrong with it
	fi
	command -v "$1" >/dev/null 2>&1
}

# install PACKAGE installs a Debian package, or says in $why why it cannot.
install() {
	command -v apt-get >/dev/null 2>&1 || { why="there is no apt-get to install it" && return 1; }
	sudo=
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null 2>&1 || { why="there is neither root nor sudo to install it" && return 1; }
		sudo=sudo
	fi
	echo "test.sh: installing $1 with apt-get" >&2
	if $sudo true && installing "$1" </dev/null >&2; then
		return 0
	fi
	why="apt-get install $1 did not work"
	return 1
}

# installing PACKAGE installs it and starts nothing. Called in a condition, it runs without set -e.
installing() {
	# Without this file Postgres' package would create and start a server of its own.
	conf=/etc/postgresql-common/createcluster.conf
	if [ ! -e "$conf" ]; then
		$sudo mkdir -p "${conf%/*}" && echo "create_main_cluster = false" | $sudo tee "$conf" >/dev/null || return 1
	fi
	# And this one keeps packages from starting what they install.
	policy=/usr/sbin/policy-rc.d
	if [ -e "$policy" ]; then
		policy=
	else
		printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null && $sudo chmod +x "$policy" || return 1
	fi
	status=0
	# confold: our createcluster.conf is a changed configuration file to dpkg.
	{ $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		-o Dpkg::Options::=--force-confold "$1" >/dev/null; } || status=1
	[ -z "$policy" ] || $sudo rm -f "$policy"
	return "$status"
}

# need PROGRAM VARIABLE PACKAGE FORMULA PARTS gets a program, or adds its parts to those that do not run.
need() {
	! have "$1" "$2" || return 0
	if install "$3"; then
		! have "$1" "$2" || return 0
		why="$3 is installed, but $1 is not on PATH"
	fi
	ways="apt-get install $3, or brew install $4"
	[ "$2" = - ] || ways="$ways, or set $2 to its file"
	missing="$missing
  $5
    no $1, and $why; to run them: $ways"
}

# finish names, at the very end, what did not run.
finish() {
	status=$?
	[ -n "$missing" ] || exit "$status"
	echo "test.sh: these parts did not run:$missing" >&2
	if [ "$status" = 0 ] && [ -n "${CI:-}" ]; then
		echo "test.sh: all else passed, but in CI nothing may be left out" >&2
		status=1
	fi
	exit "$status"
}

# The race detector needs cgo and a C compiler.
race() {
	cc=$(go env CC)
	if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "${cc%% *}" >/dev/null 2>&1; then
		echo -race
	else
		echo "test.sh: no C compiler: testing without the race detector" >&2
	fi
}

command -v go >/dev/null 2>&1 || fail "no Go: install the toolchain that go.mod names"
have_postgres || install postgresql ||
	fail "no Postgres, and $why: install the PostgreSQL server (initdb on PATH), or set DATABASE_URL to a server whose role may create databases"
missing=
trap finish EXIT
while read -r program variable package formula parts; do
	need "$program" "$variable" "$package" "$formula" "$parts"
done <<END
$(optional)
END
race=$(race)
# Many tests wait, for time to pass or for a disk where Postgres has its files on one: there, with
# two processors and as many tests at once, both were idle for two thirds of the time. With six at once in two
# packages that need no disk, both were busy, and tests that wait for something were late.
parallel=$(nproc 2>/dev/null || echo 1)
[ "$parallel" -ge 4 ] || parallel=4

# The longest package takes about ten minutes on two busy processors, and go test allows no more by itself.
limit=-timeout=30m
# Those that take longest come first, so that not one of them is left to run alone.
# shellcheck disable=SC2086 # empty race: no argument
go test $race $limit -shuffle=on -parallel "$parallel" "$@" ./server/pgstore ./saga/pgjournal ./...
find . -mindepth 2 -name go.mod -not -path '*/testdata/*' -not -path '*/.*/*' | sort | while read -r module; do
	echo "test.sh: module ${module%/go.mod}"
	# shellcheck disable=SC2086
	(cd "${module%/go.mod}" && go test $race $limit -shuffle=on -parallel "$parallel" "$@" ./...) </dev/null
done
