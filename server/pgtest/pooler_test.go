package pgtest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func connectThrough(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) }) // with the pooler
	return conn
}

// Two clients share one connection to the server, and so they share the state
// of a session. Tests behind a pooler must find that out.
func TestPooler_sharesSessions(t *testing.T) {
	t.Parallel()
	url := URL(t)
	PooledURL(t, url) // skips where there is none
	p, err := startPooler(t.Context(), url, 1)
	require.NoError(t, err)
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	first, second := connectThrough(t, p.url(cfg.Database)), connectThrough(t, p.url(cfg.Database))
	var pids [2]int
	for i, conn := range []*pgx.Conn{first, second} {
		require.NoError(t, conn.QueryRow(t.Context(), "select pg_backend_pid()").Scan(&pids[i]))
	}
	require.Equal(t, pids[0], pids[1])
	require.NoError(t, p.stop())
	require.NoError(t, p.stop())
	require.Error(t, second.Ping(t.Context()))
}

func TestPooler_missing(t *testing.T) { // not parallel: it sets the environment
	t.Setenv(EnvPgBouncer, "/nowhere/pgbouncer")
	_, err := startPooler(t.Context(), "postgres://127.0.0.1/x", 1)
	require.ErrorIs(t, err, errNoPooler)
	require.ErrorContains(t, err, "install it")
	_, err = startPooler(t.Context(), "://", 1)
	require.Error(t, err)
}

// A tbStub notes how a test ends.
type tbStub struct {
	testing.TB
	ended string
}

func (t *tbStub) Helper() {}

func (t *tbStub) Skip(args ...any) { t.end("skipped", args) }

func (t *tbStub) Fatal(args ...any) { t.end("failed", args) }

func (t *tbStub) end(how string, args []any) {
	t.ended = how + ": " + fmt.Sprint(args...)
	runtime.Goexit()
}

// Without PgBouncer a test is skipped. Where somebody names its file, the file has to work.
func TestPooledURL_withoutPgBouncer(t *testing.T) { // not parallel: it sets the environment
	for _, tt := range []struct{ file, want string }{{"", "skipped"}, {"/nowhere/pgbouncer", "failed"}} {
		t.Run(tt.want, func(t *testing.T) {
			t.Setenv(EnvPgBouncer, tt.file)
			t.Cleanup(func(files []string) func() { return func() { poolerFiles = files } }(poolerFiles))
			poolerFiles = []string{"/nowhere/pgbouncer"}
			stub := &tbStub{TB: t}
			var wg sync.WaitGroup
			wg.Go(func() { PooledURL(stub, "postgres://127.0.0.1/x") })
			wg.Wait()
			require.Contains(t, stub.ended, tt.want+": pgtest: no PgBouncer to be had: install it")
		})
	}
}
