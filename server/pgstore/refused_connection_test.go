package pgstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// The server refuses the new connections that the leaders of flushes ask for. The pool's one connection is enough for
// the queue: only the writes whose own dial was refused fail.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true, Settings: map[string]string{"max_connections": "12"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	cfg, err := pgxpool.ParseConfig(cluster.URL("postgres"))
	require.NoError(t, err)
	cfg.MaxConns = 2
	look, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(look.Close)
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
	s, pool := poolOf(t, look, pgstore.Config{}, size(8))
	claim(t, s) // the pool has one
	takeAllConnections(t, cluster.URL("postgres"))

	const n = 500
	held, err := pool.Acquire(t.Context()) // so that a queue forms behind the leader
	require.NoError(t, err)
	time.AfterFunc(20*time.Millisecond, held.Release) // until then each leader dials, and is refused
	var ok, refused atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), server.DefaultStoreTimeout)
			defer cancel()
			switch _, _, err := s.Claim(ctx, newClaim()); {
			case err == nil:
				ok.Add(1)
			case pgkit.Classify(err) == pgkit.FailureTooManyConnections:
				refused.Add(1)
			default:
				t.Errorf("a claim: %v", err)
			}
		})
	}
	wg.Wait()
	commits := queryRow[int](t, look, "select count(distinct xmin::text) from idempotency")
	t.Logf("%d ok, %d refused, %d commits, %d dials", ok.Load(), refused.Load(), commits, pool.Stat().NewConnsCount())
	// Each refused dial fails one claim, its leader's. How many leaders dial before the connection is free again depends
	// on the machine.
	require.LessOrEqual(t, pool.Stat().NewConnsCount(), int64(16), "dials")
	require.Less(t, refused.Load(), pool.Stat().NewConnsCount(), "claims that failed for want of a connection of their own")
	require.Less(t, commits, n/4, "commits")
}

// takeAllConnections has somebody else take every connection that the server has left.
func takeAllConnections(t *testing.T, databaseURL string) {
	t.Helper()
	for {
		conn, err := pgx.Connect(t.Context(), databaseURL)
		if err != nil {
			require.Equal(t, pgkit.FailureTooManyConnections, pgkit.Classify(err))
			return
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
	}
}
