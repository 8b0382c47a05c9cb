package node

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// poolSize is how many connections a node may have: one for each of the handlers
// that run at a time by default. The demo opens five pools, which fit into the
// 100 connections of a default Postgres.
const poolSize = 16

// Storage is what a node keeps: the guard's records and the ledger. They are
// in one database, which is what lets them commit together.
type Storage struct {
	// Ledger is never nil.
	Ledger ledger.Ledger
	// Keys is another store, for the routes that need no transaction. Nil
	// means that all keys are in the database. Set it before [Start].
	Keys *Keys

	store store.Store   // nil: unguarded
	pool  *pgxpool.Pool // nil: memory
}

// KeysRetention is how long [Keys] remember an answer.
const KeysRetention = time.Hour

// Keys is a store apart from the ledgers, for the Keyed and Opaque routes of all nodes.
type Keys struct {
	Store store.Store
	Run   string // separates the keys of this run from those of other runs; a name as childkey.CheckName asks
}

// OpenPostgres opens the database at url, and makes its tables unless they
// exist. Unguarded storage has a ledger only. It blocks until the database
// answers.
func OpenPostgres(ctx context.Context, url string, unsafe bool) (*Storage, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("node: database: %w", err)
	}
	cfg.MaxConns = poolSize
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("node: database: %w", err)
	}
	s, err := openPool(ctx, pool, unsafe)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

func openPool(ctx context.Context, pool *pgxpool.Pool, unsafe bool) (*Storage, error) {
	book, err := ledger.NewPostgres(ctx, pool)
	if err != nil {
		return nil, err
	}
	if unsafe {
		return &Storage{Ledger: ledger.Unguarded{Postgres: book}, pool: pool}, nil
	}
	if err := pgstore.Migrate(ctx, pool, ""); err != nil {
		return nil, err
	}
	s, err := pgstore.New(pool, pgstore.Config{KeepRoutes: true}) // the console shows them
	if err != nil {
		return nil, err
	}
	return &Storage{Ledger: book, store: s, pool: pool}, nil
}

// OpenMemory returns storage that lasts as long as this process.
func OpenMemory(unsafe bool) *Storage {
	book := new(ledger.Memory)
	if unsafe {
		return &Storage{Ledger: ledger.UnguardedMemory{Memory: book}}
	}
	return &Storage{Ledger: book, store: memstore.New()}
}

// Operate returns a guard by which a person changes the keys of the storage, which is not unguarded. It serves no route.
func (s *Storage) Operate() (*server.Guard, error) {
	return server.NewGuard(s.store, server.Unscoped, server.Config{})
}

// OpenReader returns what a console looks at, which is not there for unguarded storage.
func (s *Storage) OpenReader(ctx context.Context) (store.Reader, error) {
	if s.pool == nil {
		return s.store.Reader(), nil
	}
	if err := pgstore.AddReaderIndexes(ctx, s.pool, ""); err != nil {
		return nil, err
	}
	return pgstore.NewReader(s.pool, pgstore.ReaderConfig{})
}

// OpenJournal returns a journal of sagas beside the ledger, and what closes it.
func (s *Storage) OpenJournal(ctx context.Context) (_ journal.Journal, done func(), err error) {
	if s.pool == nil {
		return memjournal.New(), func() {}, nil
	}
	if err := pgjournal.Migrate(ctx, s.pool, ""); err != nil {
		return nil, nil, err
	}
	j, err := pgjournal.New(s.pool, pgjournal.Config{})
	if err != nil {
		return nil, nil, err
	}
	return j, j.Close, nil
}

// OpenJournalReader returns what a console looks at of the journal that OpenJournal has returned.
func (s *Storage) OpenJournalReader(ctx context.Context, j journal.Journal) (journal.Reader, error) {
	if s.pool == nil {
		return j.Reader(), nil
	}
	return j.Reader(), pgjournal.AddReaderIndexes(ctx, s.pool, "")
}

// Close frees what the storage holds. Stop its node first.
func (s *Storage) Close() {
	if under, ok := s.store.(interface{ Close() }); ok { // memory has nothing to close
		under.Close()
	}
	if s.pool != nil {
		s.pool.Close()
	}
}
