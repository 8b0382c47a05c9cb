#!/bin/sh
# Runs every test of the root module and of the nested ones once, against a real Postgres.
#
#	./test.sh                    everything
#	./test.sh -race              with the race detector, as .ci/run does
#	./test.sh -run Claim -v      any flags of go test
#	DISTRIBUTED_URL=postgres://… ./test.sh -run Distributed
#	                             the tests that need a Citus, on the one that is there; else they are skipped
#
# Postgres is the server of DATABASE_URL, else the binaries of this machine, else what apt-get installs now.
# No server has to run, because each test binary starts its own. Tests that need another program are left out
# where it is missing, and the last lines name them.
set -eu
cd "$(dirname "$0")"

has_postgres() {
	[ -n "${DATABASE_URL:-}${PGTEST_BIN:-}" ] && return # the tests say what is wrong with it
	command -v initdb >/dev/null && return
	for initdb in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb /usr/libexec/postgresql*/initdb \
		/opt/homebrew/opt/postgresql@*/bin/initdb /usr/local/opt/postgresql@*/bin/initdb; do
		[ -x "$initdb" ] && return
	done
	return 1
}

command -v go >/dev/null || { echo "test.sh: no Go: install the toolchain that go.mod names" >&2 && exit 1; }
has_postgres || sh .ci/programs install postgresql || {
	echo "test.sh: no Postgres: put initdb on PATH, or set DATABASE_URL to a server whose role may create databases" >&2
	exit 1
}
# Debian and Homebrew have servers in folders that are not on every user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/opt/homebrew/sbin
export PATH

# Many tests wait, for time to pass or for a disk. With two processors and as many tests at once, both processors
# were idle for two thirds of the time.
parallel=$(nproc 2>/dev/null || echo 1)
[ "$parallel" -ge 4 ] || parallel=4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
export work parallel
# run_module is a script that runs go test in the folder of a module. The root says what it does as it goes, and a nested
# module once it has ended. The packages that take longest come first, so that not one of them is left to run alone.
run_module='
	module=$1 && shift
	run() {
		echo "test.sh: module $module"
		(cd "$module" && go test -timeout=30m -shuffle=on -parallel "$parallel" "$@" ./...) || echo "$module" >>"$work/failed"
	}
	case $module in
	.) run "$@" ./server/pgstore ./saga/pgjournal ./saga/sagatest ;;
	*) run "$@" >"$work/$$" 2>&1; cat "$work/$$" ;;
	esac'

# The nested modules run beside the root. With the race detector they run after it, since the processors are busy then.
lanes=2
case " $* " in *" -race "*) lanes=1 ;; esac
{ echo . && find . -mindepth 2 -name go.mod -not -path '*/testdata/*' -not -path '*/.*/*' | sed 's|/go.mod$||' | sort; } |
	xargs -P "$lanes" -I '{}' sh -c "$run_module" sh '{}' "$@"

sh .ci/programs >&2
if [ -s "$work/failed" ]; then
	echo "test.sh: FAILED in:" $(cat "$work/failed") >&2
	exit 1
fi
