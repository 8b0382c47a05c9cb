package pgstore_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A stock lends databases to the rules of one conformance suite.
type stock struct {
	*pgkittest.Stock

	runtime func(look *pgxpool.Pool) string // the role of a new one; nil: its owner's
	roles   sync.Map                        // by pool
}

func newStock(owner *testing.T, runtime func(look *pgxpool.Pool) string) *stock {
	return &stock{Stock: pgkittest.NewStock(owner, pgstore.Migrate, "idempotency", "idempotency_answer", "idempotency_attention", "idempotency_audit", "idempotency_intent"), runtime: runtime}
}

// lend returns a database, and what makes connections those of its role.
func (s *stock) lend(tb testing.TB) (look *pgxpool.Pool, asRole func(*pgxpool.Config)) {
	tb.Helper()
	look = s.Lend(tb)
	tb.Cleanup(func() { requireSound(tb, look) })
	if s.runtime == nil {
		return look, func(*pgxpool.Config) {}
	}
	role, ok := s.roles.Load(look)
	if !ok {
		role = s.runtime(look)
		s.roles.Store(look, role)
	}
	return look, as(role.(string)) //nolint:forcetypeassert // stored above
}

// open lends a database and opens a store on it.
func (s *stock) open(tb testing.TB, cfg pgstore.Config, changes ...func(*pgxpool.Config)) *pgstore.Store {
	tb.Helper()
	look, asRole := s.lend(tb)
	return openOn(tb, look, cfg, append(changes, asRole)...)
}
