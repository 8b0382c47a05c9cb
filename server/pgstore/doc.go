// Package pgstore keeps the records of a guard in Postgres, with pgx.
//
// [Migrate] creates the tables, and [Open] opens the store. It refuses a server with
// fsync or synchronous_commit off.
//
//	cfg, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
//	…
//	store, err := pgstore.Open(ctx, cfg, pgstore.Config{})
//	…
//	defer store.Close()
//
// In a Transactional handler, [Tx] returns the transaction that also stores the answer. [Queue] leaves
// a statement to its last round trip, which has the answer and COMMIT. In a
// Keyed handler, [OnComplete] adds statements to the transaction that stores the answer.
// Handlers that use database/sql have [SQLTx]: the folder examples/integrations/sqltools joins sqlc, GORM and ent with it.
// A handler that publishes a message inserts a job of River in that transaction (folder examples/consumer). Without
// River it starts a saga there with pgjournal.Start.
// [Once] and [Barrier] work in a transaction of your own, without a guard. [Store.OnceFunc] begins one.
// [Roles] splits the rights on the tables.
//
// # Connections
//
// A process needs one connection of the pool for each Transactional handler that runs, up to
// four for claims and completions, and one or more for reads. A Keyed or Opaque
// handler and a waiting duplicate hold none. The default of pool_max_conns is too small for many
// Transactional handlers. Choose six more than the handlers that run at once. With a pool that
// is too small, requests get 503 not-claimed while the server is idle.
//
// Behind PgBouncer in transaction mode, leave DefaultQueryExecMode as it is, and let
// [Config].Listen connect to the server itself.
//
// # Operations
//
// server.Guard.RunSweeper deletes records. A job of yours calls [Intents.Sweep] and
// [Store.PruneAudit] once a day. A [Reader] shows the records to people, with the rights of an observer.
// [AddReaderIndexes] makes the indexes that it needs. A failover keeps every answer only if the standby is
// synchronous: watch AsyncStandbys of [Reader.Estimate].
//
// SCALE.md has the arithmetic of load, disk and connections, and what comes after one server.
// DESIGN.md has the table, the statements of each operation, and more about connections,
// poolers and failover. The package knows no HTTP.
package pgstore
