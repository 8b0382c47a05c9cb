// Package pgtest gives tests and demos a real Postgres that nobody has to
// install, start or clean up by hand.
//
// In a test, [NewPool] returns a pool on a database of the test's own, and [URL]
// the address of one. All tests of a binary share one Postgres, started
// when the first of them asks; no TestMain is needed. Outside tests, [Start]
// returns a [Cluster] that the program stops, and may crash on purpose.
//
// # Where Postgres comes from
//
// The first of these that is there:
//
//  1. The server that the environment variable DATABASE_URL names, with a role
//     that may create databases.
//  2. A private cluster made from the binaries (initdb, postgres) in the folder
//     that the environment variable PGTEST_BIN names, else in the folder of
//     the initdb on PATH, else in the usual folders of Linux distributions and
//     Homebrew, newest version first. PGTEST_BIN=none finds none.
//  3. None: an [UnavailableError] that says what to do about it. A test fails
//     then; it is never skipped.
//
// [PooledURL] gives a database of a test behind a PgBouncer in transaction mode,
// [StartPooler] one to stop at will. The binary is pgbouncer on PATH or in a
// folder for servers, or the file that PGTEST_PGBOUNCER names.
//
// # What is left behind
//
// Nothing, however the program ends. A private cluster has a folder, a port
// and a process group of its own. A small shell process holds a pipe to the program; when
// that breaks, by exit, panic or SIGKILL, it stops Postgres and removes
// the folder. Whatever even that leaves, the next start sweeps. On a
// server of yours only databases named pgtest_… are created and dropped.
//
// A private cluster forgets what it holds when the machine (not Postgres) crashes, unless
// [Config.Durable] is set: it runs with fsync off, and on Linux its folder is in /dev/shm, which
// is memory, where there and on the machine 4 GiB are free. Else, or where TMPDIR is
// set, it is in the folder for temporary files. synchronous_commit
// stays on, so that a commit which was acknowledged survives [Cluster.Kill].
//
// The package must not know what it is used to test: it imports pgx and
// the standard library.
package pgtest
