package pgkit_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// TestMain looks whether a writer or a combiner left a goroutine behind.
func TestMain(m *testing.M) {
	code := m.Run()
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	if bytes.Contains(stacks.Bytes(), []byte("internal/pgkit.")) {
		fmt.Fprintf(os.Stderr, "a write was left running:\n%s", &stacks)
		code = 1
	}
	os.Exit(code)
}

// newPool returns a prepared pool on a fresh database, with changes made to its
// configuration before that.
func newPool(tb testing.TB, changes ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	return newPoolAt(tb, pgtest.URL(tb), changes...)
}

func newPoolAt(tb testing.TB, url string, changes ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(tb, err)
	for _, change := range changes {
		change(cfg)
	}
	pgkit.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

func newWriter(tb testing.TB, pool *pgxpool.Pool, maxDetached int) *pgkit.Writer {
	tb.Helper()
	w, err := pgkit.NewWriter(pool, maxDetached)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = w.Close(ctx)
	})
	return w
}

// until waits for a condition that something else brings about.
var until = pgkittest.Until

func exec(tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	tb.Helper()
	_, err := pool.Exec(tb.Context(), sql, args...)
	require.NoError(tb, err)
}

func queryRow[T any](tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	tb.Helper()
	require.NoError(tb, pool.QueryRow(tb.Context(), sql, args...).Scan(&v))
	return v
}

// session sets a parameter of a pool's connections.
func session(setting, value string) func(*pgxpool.Config) {
	return func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams[setting] = value }
}
