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

failed=
# test_module FOLDER ARGUMENT… runs go test in the folder of a module.
test_module() {
	module=$1
	shift
	echo "test.sh: module $module"
	(cd "$module" && go test -timeout=30m -shuffle=on -parallel "$parallel" "$@") || failed="$failed $module"
}

# The packages that take longest come first, so that not one of them is left to run alone.
test_module . "$@" ./server/pgstore ./saga/pgjournal ./...
for go_mod in $(find . -mindepth 2 -name go.mod -not -path '*/testdata/*' -not -path '*/.*/*' | sort); do
	test_module "${go_mod%/go.mod}" "$@" ./...
done

sh .ci/programs >&2
if [ -n "$failed" ]; then
	echo "test.sh: FAILED in:$failed" >&2
	exit 1
fi
