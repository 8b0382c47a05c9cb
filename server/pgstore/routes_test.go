package pgstore_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/servertest"
	"github.com/fanonce/fanonce/server/store"
)

// Every form of claim keeps the route: alone, in shared commits, and of one commit with the answer.
func TestRoutes(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]pgstore.Config{
		"shared commits":   {KeepRoutes: true},
		"separate commits": {KeepRoutes: true, SeparateCommits: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databases := newStock(t, func(look *pgxpool.Pool) string { return roles(t, look).Runtime })
			servertest.TestRoutes(t, func(tb testing.TB) store.Store { return databases.open(tb, cfg) })
		})
	}
}

func TestRoutes_distributed(t *testing.T) {
	t.Parallel()
	databases := newCitusStock(t)
	servertest.TestRoutes(t, func(tb testing.TB) store.Store { return databases.open(tb, pgstore.Config{KeepRoutes: true}) })
}

// A route takes its own length and one byte. Without KeepRoutes it takes nothing.
func TestConfig_keepRoutes_size(t *testing.T) {
	t.Parallel()
	route := strings.Repeat("r", 40)
	sizes := make(map[bool]int)
	for _, keep := range []bool{false, true} {
		s, look := open(t, pgstore.Config{KeepRoutes: keep})
		req := newClaim()
		req.Route = route
		claimAs(t, s, req)
		sizes[keep] = queryRow[int](t, look, "select pg_column_size(i.*) from idempotency i")
	}
	// Columns behind the route begin at multiples of two or four bytes.
	require.InDelta(t, len(route)+1, sizes[true]-sizes[false], 8)
}
