package pgkittest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server/pgtest"
)

// emptyTimeout bounds how long a stock empties a database.
const emptyTimeout = 30 * time.Second

// A Stock lends databases to subtests, each to one subtest at a time, and empties the databases
// that come back. A conformance suite needs an empty database for each test. A server takes longer
// to make and drop a database than to empty one; on a disk it takes ten times as long. Make a Stock
// with [NewStock]. It is safe for concurrent use.
type Stock struct {
	owner testing.TB
	open  func() *pgxpool.Pool // a new one, which goes when owner ends
	empty string

	mu   sync.Mutex
	free []*pgxpool.Pool
}

// NewStock returns a stock without databases: [Stock.Lend] makes them, by [pgtest.NewPool] with
// migrate, and they go when owner ends. The argument tables names the tables to empty, each as
// truncate takes it. Without tables nothing is emptied. Other changes of a test stay.
func NewStock(owner testing.TB, migrate func(ctx context.Context, pool *pgxpool.Pool, schema string) error, tables ...string) *Stock {
	return &Stock{owner: owner, empty: truncate(tables), open: func() *pgxpool.Pool { return pgtest.NewPool(owner, migrate) }}
}

// NewCitusStock is [NewStock] with the schemas of [NewCitusPool]. The function setUp makes and
// distributes the tables of a new schema.
func NewCitusStock(owner testing.TB, setUp func(ctx context.Context, pool *pgxpool.Pool, schema string) error, tables ...string) *Stock {
	CitusURL(owner) // not in a subtest: there it could not skip the owner
	return &Stock{owner: owner, empty: truncate(tables), open: func() *pgxpool.Pool {
		pool := NewCitusPool(owner)
		if err := setUp(owner.Context(), pool, ""); err != nil {
			owner.Fatalf("pgkittest: set up a schema: %v", err)
		}
		return pool
	}}
}

// truncate returns the statement that empties the tables; "" without tables.
func truncate(tables []string) string {
	if len(tables) == 0 {
		return ""
	}
	quoted := make([]string, len(tables))
	for i, table := range tables {
		quoted[i] = pgx.Identifier(strings.Split(table, ".")).Sanitize()
	}
	return "truncate " + strings.Join(quoted, ", ")
}

// Lend returns a pool on a database that belongs to tb until tb ends. tb is a subtest of the owner,
// or the owner itself, which gives nothing back. The database of a failed test is not lent again. A
// table that cannot be emptied in half a minute, because somebody still uses it, fails tb.
func (s *Stock) Lend(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool := s.take()
	if pool == nil {
		pool = s.open()
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
	ctx, cancel := context.WithTimeout(context.Background(), emptyTimeout) // tb's own is over
	defer cancel()
	if _, err := pool.Exec(ctx, s.empty); err != nil {
		tb.Errorf("pgkittest: empty a database that was lent: %v", err)
		return false
	}
	return true
}
