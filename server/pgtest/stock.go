package pgtest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Stock lends databases to subtests, each to one at a time, and empties what comes
// back. A suite of laws needs an empty one for each law, and to make and drop a database
// takes a server longer than to empty one, on a disk ten times as long. Make it with [NewStock]. It is safe for
// concurrent use.
type Stock struct {
	owner   testing.TB
	migrate func(context.Context, *pgxpool.Pool) error
	empty   string

	mu   sync.Mutex
	free []*pgxpool.Pool
}

// NewStock returns a stock without databases: [Stock.Lend] makes them, by [NewPool] with
// migrate, and they go when owner ends. Tables are those to empty, each as truncate takes it;
// none means that nothing is emptied. What else a test changes stays.
func NewStock(owner testing.TB, migrate func(context.Context, *pgxpool.Pool) error, tables ...string) *Stock {
	s := &Stock{owner: owner, migrate: migrate}
	if len(tables) > 0 {
		quoted := make([]string, len(tables))
		for i, table := range tables {
			quoted[i] = pgx.Identifier(strings.Split(table, ".")).Sanitize()
		}
		s.empty = "truncate " + strings.Join(quoted, ", ")
	}
	return s
}

// Lend returns a pool on a database that is tb's until it ends. tb is a subtest of the owner,
// or the owner itself, which gives nothing back. What a test that failed leaves is lent to nobody else; a table
// that cannot be emptied in half a minute, since somebody still uses it, fails tb.
func (s *Stock) Lend(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool := s.take()
	if pool == nil {
		pool = NewPool(s.owner, s.migrate)
	}
	if tb == s.owner { // what it cleans up may need the tables
		return pool
	}
	tb.Cleanup(func() {
		if !tb.Failed() && s.clear(tb, pool) {
			s.put(pool)
		}
	})
	return pool
}

func (s *Stock) take() *pgxpool.Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		return nil
	}
	last := len(s.free) - 1
	pool := s.free[last]
	s.free = s.free[:last]
	return pool
}

func (s *Stock) put(pool *pgxpool.Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, pool)
}

func (s *Stock) clear(tb testing.TB, pool *pgxpool.Pool) bool {
	tb.Helper()
	if s.empty == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout) // tb's own is over
	defer cancel()
	if _, err := pool.Exec(ctx, s.empty); err != nil {
		tb.Errorf("pgtest: empty a database that was lent: %v", err)
		return false
	}
	return true
}
