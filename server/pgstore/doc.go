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
// The package knows records and owners, and nothing of HTTP, keys or what is in
// an answer. It keeps to what a pooler in transaction mode allows. DESIGN.md has
// the table, the statements that each operation sends, and what is not obvious.
package pgstore
