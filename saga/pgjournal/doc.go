// Package pgjournal is a journal.Journal in Postgres, with pgx.
//
// [Migrate] creates the tables, and [Open] opens the journal. It refuses a server with
// fsync or synchronous_commit off.
//
//	cfg, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
//	…
//	journal, err := pgjournal.Open(ctx, cfg, pgjournal.Config{})
//	…
//	defer journal.Close()
//	engine, err := saga.Open(ctx, journal, saga.Config{Client: client, Definitions: …})
//
// [Start] and [StartSQL] store a saga in a transaction of yours. The saga runs if and only if
// the transaction commits. [Local] makes a step of a function that writes rows of yours in the
// journal's database: they are committed once. [Roles] splits the rights on the tables.
//
// saga.Engine.RunSweeper deletes sagas that are over for longer than saga.Config.Keep. A job of
// yours calls [Journal.PruneAudit] once a day. A stuck saga stays until a person has moved it.
//
// A [Reader] shows sagas to people, in bounded time. [AddReaderIndexes] makes its index.
//
// On a cluster of Citus, [Distribute] spreads the tables over the nodes.
//
// The journal works behind PgBouncer in transaction mode. Leave DefaultQueryExecMode as it is:
// [Prepare] removes the settings that a pooler cannot serve. [Open] refuses the simple protocol.
// Do not choose DescribeExec: its two round trips may reach two sessions.
//
// The package knows the records and owners of sagas, but no plans and no calls. DESIGN.md has
// the tables, and the statements of each method with their costs.
package pgjournal
