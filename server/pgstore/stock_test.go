package pgstore_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

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
	return &stock{Stock: pgkittest.NewStock(owner, pgstore.Migrate, tables...), runtime: runtime}
}

// newEffectsStock is newStock with the table of rows, which every role may use.
func newEffectsStock(owner *testing.T, runtime func(look *pgxpool.Pool) string) *stock {
	return &stock{Stock: pgkittest.NewStock(owner, migrateWithEffects, append(slices.Clone(tables), "effect")...), runtime: runtime}
}

func migrateWithEffects(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := pgstore.Migrate(ctx, pool, schema); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, "create table effect (id uuid not null); grant select, insert on effect to public")
	return err
}

// tables are those that a test fills.
var tables = []string{"idempotency", "idempotency_answer", "idempotency_attention", "idempotency_audit", "idempotency_intent"}

// newCitusStock is newStock with distributed tables.
func newCitusStock(owner *testing.T) *stock {
	return &stock{Stock: pgkittest.NewCitusStock(owner, setUpDistributed, tables...)}
}

// distributedPool returns a pool on distributed tables in a schema of tb's own.
func distributedPool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	look := pgkittest.NewCitusPool(tb)
	require.NoError(tb, setUpDistributed(tb.Context(), look, ""))
	return look
}

func setUpDistributed(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := pgstore.Migrate(ctx, pool, schema); err != nil {
		return err
	}
	return pgstore.Distribute(ctx, pool, schema)
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
