package pgjournal_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/pgjournal"
)

// citus returns a pool on an empty schema of tb's own, in the database of a Citus that is there
// already. Without DISTRIBUTED_URL tb is skipped.
func citus(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	url := os.Getenv("DISTRIBUTED_URL")
	if url == "" {
		tb.Skip("DISTRIBUTED_URL is not set: there is no Citus to test with")
	}
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(tb, err)
	var id [6]byte
	_, _ = rand.Read(id[:])
	schema := "fanonce_test_" + hex.EncodeToString(id[:])
	cfg.ConnConfig.RuntimeParams["search_path"] = schema
	cfg.ConnConfig.RuntimeParams["citus.shard_count"] = "4"
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

// distributedTables is citus with tables.
func distributedTables(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	look := citus(tb)
	require.NoError(tb, pgjournal.Migrate(tb.Context(), look, ""))
	require.NoError(tb, pgjournal.Distribute(tb.Context(), look, ""))
	return look
}

// A distributedStock lends distributed tables to the rules of one test, each to one at a time.
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
		look = distributedTables(s.owner)
	}
	tb.Cleanup(func() {
		requireSound(tb, look)
		if _, err := look.Exec(context.WithoutCancel(tb.Context()), "truncate saga, saga_result, saga_engine, saga_plan, saga_audit"); err != nil {
			tb.Error(err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free = append(s.free, look)
	})
	return look
}
