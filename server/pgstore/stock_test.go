package pgstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// A stock lends databases to the laws of one test, each to one law at a time. A law needs
// an empty one, and to make and drop one takes the server ten times as long as to empty it.
type stock struct {
	owner   *testing.T
	prepare func(look *pgxpool.Pool) (role string) // of a new one; nil: nothing is

	mu   sync.Mutex
	free []lent
}

// A lent database has its owner's pool, and the role to use it as; "": the owner's.
type lent struct {
	look *pgxpool.Pool
	role string
}

func newStock(owner *testing.T, prepare func(look *pgxpool.Pool) (role string)) *stock {
	return &stock{owner: owner, prepare: prepare}
}

func (s *stock) lend(tb testing.TB) lent {
	tb.Helper()
	db, ok := s.take()
	if !ok {
		db.look = pgtest.NewPool(s.owner, pgstore.Migrate)
		if s.prepare != nil {
			db.role = s.prepare(db.look)
		}
	}
	tb.Cleanup(func() {
		requireSound(tb, db.look)
		s.takeBack(tb, db)
	})
	return db
}

// open lends a database and opens a store on it.
func (s *stock) open(tb testing.TB, cfg pgstore.Config, changes ...func(*pgxpool.Config)) *pgstore.Store {
	tb.Helper()
	db := s.lend(tb)
	if db.role != "" {
		changes = append(changes, as(db.role))
	}
	return openOn(tb, db.look, cfg, changes...)
}

func (s *stock) take() (db lent, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		db, s.free = s.free[n-1], s.free[:n-1]
		return db, true
	}
	return db, false
}

// takeBack empties the database. What a law that failed left is lent to nobody else.
func (s *stock) takeBack(tb testing.TB, db lent) {
	tb.Helper()
	if tb.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute)
	defer cancel()
	_, err := db.look.Exec(ctx, "truncate idempotency, idempotency_answer, idempotency_audit, idempotency_intent")
	require.NoError(tb, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, db)
}
