// Package pgjournal is a saga.Journal in Postgres, with pgx.
//
// [Open] is the main door: it makes a pool whose connections tell what the journal
// needs to see, and refuses a server whose word is not good. [Migrate] brings the
// tables there.
//
//	cfg, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
//	…
//	journal, err := pgjournal.Open(ctx, cfg, pgjournal.Config{})
//	…
//	defer journal.Close()
//	engine, err := saga.Open(ctx, journal, client, saga.Config{Definitions: …})
//
// [Start] and [StartSQL] store a saga as part of a transaction of yours: what
// commits an order commits that it will be seen to. [Roles] splits the rights on
// the tables.
//
// # What grows
//
// Nothing deletes by itself. saga.Engine.RunSweeper deletes sagas that are over for longer than
// saga.Config.Keep, with their results and what is left of engines: let it run in one process
// or in each. The lines of the audit log go by
// [Journal.PruneAudit]: call it from a job, once a day. What is stuck stays until people
// have moved it on.
//
// # Behind a pooler
//
// The journal needs nothing of a session: its tests pass through PgBouncer in
// transaction mode. Connect to the pooler as to a server, and leave
// DefaultQueryExecMode as it is: [Prepare] takes away what a pooler cannot do, and
// statements are prepared by name only where the server itself answers, which
// makes them faster there. In any other mode none is, but for the simple protocol,
// which [Open] refuses. Do not choose DescribeExec behind a pooler: its two round trips
// may reach two sessions.
//
// The package knows records and owners, and nothing of plans, calls or what a
// saga decides. DESIGN.md has the tables, the statements that each method sends,
// what they cost, and what is not obvious.
package pgjournal
