// Package pgtest gives tests and demos a real Postgres. It installs nothing, and it needs
// no step by hand.
//
// In a test, [NewPool] returns a pool on a database of the test's own, and [URL] returns the
// address of one. All tests of a binary share one server, which starts with the first of them.
// No TestMain is needed. Outside tests, [Start] returns a [Cluster] that the program stops.
//
// # Where Postgres comes from
//
// The package takes the first of these:
//
//  1. The server that the environment variable DATABASE_URL names. Its role may create
//     databases.
//  2. A private cluster, made from the binaries initdb and postgres. They are in the folder that
//     PGTEST_BIN names, else in the folder of the initdb on PATH, else in the usual folders of
//     Linux distributions and Homebrew. PGTEST_BIN=none finds none.
//  3. None: an error that matches [ErrUnavailable] and says what to do about it. A test fails
//     then; it is never skipped.
//
// [PooledURL] returns a database of a test behind PgBouncer in transaction mode. Its binary is
// pgbouncer on PATH or in a folder for servers, or the file that PGTEST_PGBOUNCER names. Without PgBouncer
// the test is skipped. It fails if PGTEST_PGBOUNCER names a file that is not there.
//
// # What is left behind
//
// Every end of the program cleans up. A private cluster has its own folder, port and process group. A small shell
// process holds a pipe to the program. When the pipe breaks, the process stops Postgres and removes the folder. The
// next start removes any rest. On your own server the package creates and drops only databases named pgtest_….
//
// A private cluster runs with fsync off. On Linux its folder is in /dev/shm, if that and the
// memory have 4 GiB free and TMPDIR is not set. So it loses data when the machine crashes,
// unless [Config.Durable] is set. synchronous_commit stays on: an acknowledged commit survives
// [Cluster.Kill].
//
// The package imports pgx and the standard library only.
package pgtest
