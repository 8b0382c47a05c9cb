package pgstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A replay from the guard's cache sends nothing.
func TestCache_sendsNothing(t *testing.T) {
	t.Parallel()
	count := new(counter)
	store, _ := open(t, pgstore.Config{}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = count })
	g, err := server.NewGuard(store, server.Unscoped, server.Config{CacheBytes: 1 << 20})
	require.NoError(t, err)
	again := func() {
		n, err := do(t, g, server.Keyed, "k", func(context.Context) (int, error) { return 7, nil })
		require.NoError(t, err)
		require.Equal(t, 7, n)
	}
	require.EqualValues(t, 2, count.count(again), "claim and completion")
	require.Zero(t, count.count(func() {
		for range 10 {
			again()
		}
	}))
}
