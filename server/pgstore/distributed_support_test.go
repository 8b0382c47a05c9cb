package pgstore_test

import (
	"context"
	"encoding/hex"
	neturl "net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
)

// distributedPool returns a pool on distributed tables in a schema of tb's own, in the database of
// a Citus that is there already. Without DISTRIBUTED_URL tb is skipped.
func distributedPool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	look := citus(tb)
	require.NoError(tb, pgstore.Migrate(tb.Context(), look, ""))
	require.NoError(tb, pgstore.Distribute(tb.Context(), look, ""))
	return look
}

// citus is distributedPool without tables.
func citus(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	url := os.Getenv("DISTRIBUTED_URL")
	if url == "" {
		tb.Skip("DISTRIBUTED_URL is not set: there is no Citus to test with")
	}
	id := random()
	schema := "fanonce_test_" + hex.EncodeToString(id[:6])
	address, err := neturl.Parse(url)
	require.NoError(tb, err)
	query := address.Query() // other processes find the same tables by the URL
	query.Set("search_path", schema)
	query.Set("citus.shard_count", "8")
	address.RawQuery = query.Encode()
	cfg, err := pgxpool.ParseConfig(address.String())
	require.NoError(tb, err)
	cfg.MaxConns = max(cfg.MaxConns, 16)
	look, err := pgxpool.NewWithConfig(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(look.Close)
	exec(tb, look, "create schema "+pgx.Identifier{schema}.Sanitize())
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := look.Exec(ctx, "drop schema "+pgx.Identifier{schema}.Sanitize()+" cascade")
		require.NoError(tb, err)
	})
	return look
}

// distributedStock lends distributed tables to the subtests of owner, each to one at a time.
type distributedStock struct {
	owner *testing.T
	mu    sync.Mutex
	free  []*pgxpool.Pool
}

func (s *distributedStock) lend(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	s.mu.Lock()
	var look *pgxpool.Pool
	if last := len(s.free) - 1; last >= 0 {
		look, s.free = s.free[last], s.free[:last]
	}
	s.mu.Unlock()
	if look == nil {
		look = distributedPool(s.owner)
	}
	tb.Cleanup(func() {
		requireSound(tb, look)
		if _, err := look.Exec(context.WithoutCancel(tb.Context()), "truncate idempotency, idempotency_answer, idempotency_audit, idempotency_attention, idempotency_intent"); err != nil {
			tb.Error(err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free = append(s.free, look)
	})
	return look
}

func (s *distributedStock) open(tb testing.TB, cfg pgstore.Config) *pgstore.Store {
	tb.Helper()
	return openOn(tb, s.lend(tb), cfg)
}
