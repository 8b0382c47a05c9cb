// Package pgstore keeps a guard's records in Postgres, with pgx.
//
// [Open] is the main door: it makes a pool whose connections tell what the
// store needs to see, and refuses a server whose word is not good. [Migrate]
// brings the tables there. In a Transactional handler [Tx] is the transaction
// that commits together with the answer; in a Keyed one [OnComplete] adds
// statements to the transaction that records it.
//
//	cfg, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
//	…
//	store, err := pgstore.Open(ctx, cfg, pgstore.Config{})
//	…
//	defer store.Close()
//
// Handlers that use database/sql have [SQLTx]. [Once] and [Barrier] work in a
// transaction that the user began, without a guard, and [Store.OnceFunc] in one that it
// begins. [Roles] splits the rights on the tables.
//
// # Many at once
//
// Claims and settlements that wait at the same time share commits. With 64 callers
// that was 3.9 times the rate of a commit each, with 256 it was 6.6 times
// (BenchmarkCombining, Postgres 15 with fsync on 4 shared cores; DESIGN.md has the
// conditions, and what is not combined). One caller alone is as fast, or up to a
// seventh slower (the figure "alone" of server/pgstore/bench).
// [Config].Combining turns it off.
//
// # Waiting
//
// A duplicate that waits for a run in another process holds no connection and costs
// three statements, however long it waits (one more for each lease that passes): one
// poll asks for all of a process ([Store.Watch]). With [Config].Listen the database tells, and a duplicate has
// the answer a moment after the first caller (BenchmarkWait).
//
// # Connections
//
// Of the pool's connections a process needs
//
//   - one for each Transactional handler that runs, from its first statement to its end,
//   - up to [Config].MaxFlushes for claims, settlements and renewals, however many
//     requests there are,
//   - one or more for reads: of duplicates, of the poll, of people, and for the sweep,
//
// and one beside the pool for [Config].Listen. A Keyed or Opaque handler holds none while
// it runs, and nor does who waits. pgx's own default, pool_max_conns of 4 or the number of
// CPUs if that is more, is soon used up by Transactional handlers. Choose it for as many
// as run at once and six or so more, and bound how many run at once by what is in front
// of the guard. A handler that uses the same pool beside its transaction takes a second
// connection while it holds the first, and may wait for itself.
//
// A pool that starves looks like a store that is down: claims wait for a connection for
// as long as server.Config.StoreTimeout and are refused with 503 store-unavailable,
// heartbeats come late, so that runs lose their leases, and handlers end by their timeout
// in their first statement, while the server is idle. pgxpool's Stat shows it: its
// EmptyAcquireCount and AcquireDuration grow.
//
// # What grows
//
// Nothing deletes by itself. Records go by server.Guard.RunSweeper or Sweep, which
// somebody has to call; done intents by [Intents.Sweep]; the lines of the audit log by
// [Store.PruneAudit]. The latter two no sweeper calls: run them from a job, once a day.
//
// # Failover
//
// A failover keeps every answer that was given if the promoted standby confirmed each
// commit: set synchronous_standby_names, and leave synchronous_commit on. A failover to
// an asynchronous standby can lose the last commits. The keys in them run again. [Store.Check]
// warns [Config].Logger if commits wait for no standby. Watch AsyncStandbys of
// [Store.Stats]: a standby can become asynchronous later.
//
// # Behind a pooler
//
// The store needs nothing of a session: its tests pass through PgBouncer in
// transaction mode. Connect to the pooler as to a server, and leave
// DefaultQueryExecMode as it is: [Prepare] takes away what a pooler cannot do, and
// statements are prepared by name only where the server itself answers, which
// makes them faster there. In any other mode none is, but for the simple protocol,
// which [Open] refuses. Do not choose DescribeExec behind a pooler: its two round trips
// may reach two sessions. A Transactional handler holds one of the pooler's connections to the server for as
// long as it runs; no other statement does. Leave [Config].Listen out, or let it
// connect directly.
//
// The package knows records and owners, and nothing of HTTP, keys or what is in
// an answer. It keeps to what a pooler in transaction mode allows. DESIGN.md has
// the table, the statements that each operation sends, and what is not obvious.
package pgstore
