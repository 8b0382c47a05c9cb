package pgstore_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// Every flush of claims or settlements stays on one node. A commit on two of them would have two phases, of
// which the coordinator keeps a note for a while.
func TestDistributed_flushesStayOnOneNode(t *testing.T) {
	t.Parallel()
	look := distributedPool(t)
	var mu sync.Mutex
	var processes []int32 // of the store's connections, on the coordinator
	s := openOn(t, look, pgstore.Config{}, func(cfg *pgxpool.Config) {
		connected := cfg.AfterConnect
		cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			mu.Lock()
			defer mu.Unlock()
			processes = append(processes, int32(conn.PgConn().PID())) //nolint:gosec // Postgres counts it so
			if connected == nil {
				return nil
			}
			return connected(ctx, conn)
		}
	})
	const callers, each = 32, 10
	errs := make(chan error, callers)
	for range callers {
		go func() {
			for range each {
				req := claimOf(random())
				r, won, err := s.Claim(t.Context(), req)
				if err == nil && won {
					err = s.Settle(t.Context(), store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence}, completion)
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range callers {
		require.NoError(t, <-errs)
	}
	require.Equal(t, callers*each, queryRow[int](t, look, "select count(*) from idempotency where state = 2"))
	nodes := queryRow[int](t, look, "select count(distinct nodename || nodeport) from citus_shards where table_name = 'idempotency'::regclass")
	require.Greater(t, nodes, 1, "with one node there is nothing to see")
	const twoPhases = "select count(*) from pg_dist_transaction where split_part(gid, '_', 3)::int = any ($1)"
	require.Zero(t, queryRow[int](t, look, twoPhases, processes))
}
