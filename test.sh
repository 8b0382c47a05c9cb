#!/bin/sh
# Runs all tests, of the root module and of the nested ones, against a real Postgres.
#
#	./test.sh                    everything
#	./test.sh -run Claim -v      any flags of go test
#	DISTRIBUTED_URL=postgres://… ./test.sh -run Distributed
#	                             the tests that need a Citus, on the one that is there; else they are skipped
#
# Postgres is the server of DATABASE_URL, else the binaries of this machine, else
# what apt-get installs now, and so are PgBouncer and Redis, which one benchmark compares
# with. No server has to run: each test binary starts its own.
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

have_pgbouncer() {
	[ -n "${PGTEST_PGBOUNCER:-}" ] && return # the tests say what is wrong with it
	command -v pgbouncer >/dev/null 2>&1 || [ -x /usr/sbin/pgbouncer ] || [ -x /usr/local/sbin/pgbouncer ]
}

have_redis() { command -v redis-server >/dev/null 2>&1; }

# install PACKAGE WAYS installs a Debian package; WAYS is what else a person can do.
install() {
	command -v apt-get >/dev/null 2>&1 || fail "no $1: $2"
	sudo=
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null 2>&1 || fail "no $1, and neither root nor sudo to install it: $2"
		sudo=sudo
	fi
	echo "test.sh: no $1 here; installing it with apt-get" >&2
	# Without this file the package would create and start a server of its own.
	conf=/etc/postgresql-common/createcluster.conf
	if [ ! -e "$conf" ]; then
		$sudo mkdir -p "${conf%/*}"
		echo "create_main_cluster = false" | $sudo tee "$conf" >/dev/null
	fi
	# And this one keeps packages from starting what they install.
	policy=/usr/sbin/policy-rc.d
	if [ -e "$policy" ]; then
		policy=
	else
		printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
		$sudo chmod +x "$policy"
	fi
	status=0
	# confold: our createcluster.conf is a changed configuration file to dpkg.
	{ $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		-o Dpkg::Options::=--force-confold "$1" >/dev/null; } || status=1
	[ -z "$policy" ] || $sudo rm -f "$policy"
	[ "$status" = 0 ] || fail "apt-get install $1 did not work: $2"
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
have_postgres || install postgresql "install the PostgreSQL server (initdb on PATH), or set DATABASE_URL to a server whose role may create databases"
have_pgbouncer || install pgbouncer "install PgBouncer (pgbouncer on PATH), or set PGTEST_PGBOUNCER to its file"
have_redis || install redis-server "install Redis (redis-server on PATH)"
race=$(race)
# Many tests wait, for time to pass or for a disk where Postgres has its files on one: there, with
# two processors and as many tests at once, both were idle for two thirds of the time.
parallel=$(nproc 2>/dev/null || echo 1)
[ "$parallel" -ge 6 ] || parallel=6

# Those that take longest come first, so that not one of them is left to run alone.
# shellcheck disable=SC2086 # empty race: no argument
go test $race -shuffle=on -parallel "$parallel" "$@" ./server/pgstore ./saga/pgjournal ./...
find . -mindepth 2 -name go.mod -not -path '*/testdata/*' -not -path '*/.*/*' | sort | while read -r module; do
	echo "test.sh: module ${module%/go.mod}"
	# shellcheck disable=SC2086
	(cd "${module%/go.mod}" && go test $race -shuffle=on -parallel "$parallel" "$@" ./...) </dev/null
done
