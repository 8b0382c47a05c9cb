package pgkit_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/pgtest"
)

func parse(tb testing.TB, url string) *pgxpool.Config {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(tb, err)
	return cfg
}

// unasked returns a notice handler that no server has sent anything to.
func unasked(t *testing.T) pgconn.NoticeHandler {
	return func(_ *pgconn.PgConn, n *pgconn.Notice) { t.Errorf("a made-up notice: %s", n.Message) }
}

func TestPrepared(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		make func() *pgxpool.Config
		want bool
	}{
		{"nil", func() *pgxpool.Config { return nil }, false},
		{"as parsed", func() *pgxpool.Config { return parse(t, "") }, false},
		{"with a notice handler of its own", func() *pgxpool.Config {
			cfg := parse(t, "")
			cfg.ConnConfig.OnNotice = unasked(t)
			return cfg
		}, false},
		{"with a notice handler of its own, then prepared", func() *pgxpool.Config {
			cfg := parse(t, "")
			cfg.ConnConfig.OnNotice = unasked(t)
			pgkit.Prepare(cfg)
			pgkit.Prepare(cfg)
			return cfg
		}, true},
		{"prepared, and prepared again after a change", func() *pgxpool.Config {
			cfg := parse(t, "")
			pgkit.Prepare(cfg)
			cfg.ConnConfig.OnNotice = unasked(t)
			pgkit.Prepare(cfg)
			return cfg
		}, true},
		{"prepared", func() *pgxpool.Config {
			cfg := parse(t, "")
			pgkit.Prepare(cfg)
			return cfg
		}, true},
		{"prepared, then copied", func() *pgxpool.Config {
			cfg := parse(t, "")
			pgkit.Prepare(cfg)
			return cfg.Copy()
		}, true},
		{"prepared, then wrapped", func() *pgxpool.Config {
			cfg := parse(t, "")
			pgkit.Prepare(cfg)
			next := cfg.ConnConfig.OnNotice
			cfg.ConnConfig.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) { next(c, n) }
			return cfg
		}, false},
		{"prepared, then replaced", func() *pgxpool.Config {
			cfg := parse(t, "")
			pgkit.Prepare(cfg)
			cfg.ConnConfig.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) {}
			return cfg
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := pgkit.Prepared(tt.make()); got != tt.want {
				t.Errorf("Prepared = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPrepare_execMode(t *testing.T) {
	t.Parallel()
	for mode, want := range map[pgx.QueryExecMode]pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement: pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeCacheDescribe:  pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec:   pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec:           pgx.QueryExecModeExec,
	} {
		cfg := parse(t, "")
		cfg.ConnConfig.DefaultQueryExecMode = mode
		pgkit.Prepare(cfg)
		if got := cfg.ConnConfig.DefaultQueryExecMode; got != want {
			t.Errorf("exec mode %v became %v, want %v", mode, got, want)
		}
	}
}

func TestCheckPool(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, pgkit.CheckPool(nil), pgkit.ErrNotPrepared)

	pool, err := pgxpool.New(t.Context(), "host=127.0.0.1 port=1")
	require.NoError(t, err)
	defer pool.Close()
	require.ErrorIs(t, pgkit.CheckPool(pool), pgkit.ErrNotPrepared)

	cfg := parse(t, "host=127.0.0.1 port=1 default_query_exec_mode=simple_protocol")
	pgkit.Prepare(cfg)
	simple, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer simple.Close()
	require.ErrorIs(t, pgkit.CheckPool(simple), pgkit.ErrNotPrepared)
	var mode *pgkit.ExecModeError
	require.ErrorAs(t, pgkit.CheckPool(simple), &mode)
	require.ErrorContains(t, mode, "simple protocol")
}

func TestPrepare_keepsHooks(t *testing.T) {
	t.Parallel()
	var notices, errs, connects atomic.Int32
	pool := newPool(t, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
			if n.Message == "w" {
				notices.Add(1)
			}
		}
		cfg.ConnConfig.OnPgError = func(*pgconn.PgConn, *pgconn.PgError) bool { errs.Add(1); return true }
		cfg.AfterConnect = func(context.Context, *pgx.Conn) error { connects.Add(1); return nil }
		pgkit.Prepare(cfg) // and newPool does again: each hook is to be called once
	})
	exec(t, pool, "do $$ begin raise warning 'w'; end $$")
	_, err := pool.Exec(t.Context(), "select 1/0")
	require.Error(t, err)
	require.Equal(t, []int32{1, 1, 1}, []int32{notices.Load(), errs.Load(), connects.Load()})
}

// Every way in which a statement can fail must be seen, also those that pgx
// reports late or to nobody.
func TestWatchConflicts(t *testing.T) {
	t.Parallel()
	const fails = "do $$ begin raise exception 'x' using errcode = '40001'; end $$"
	pool := newPool(t)
	exec(t, pool, "create function fails() returns int language plpgsql as 'begin raise exception ''x'' using errcode = ''40P01''; end'")
	exec(t, pool, "create table t (a int check (a < fails()))")
	for _, tt := range []struct {
		name string
		run  func(tx pgx.Tx)
		want bool
	}{
		{"nothing", func(pgx.Tx) {}, false},
		{"another error", func(tx pgx.Tx) { _, _ = tx.Exec(t.Context(), "select 1/0") }, false},
		{"Exec", func(tx pgx.Tx) { _, _ = tx.Exec(t.Context(), fails) }, true},
		{"Query, closed unread", func(tx pgx.Tx) { rows, _ := tx.Query(t.Context(), "select fails()"); rows.Close() }, true},
		{"QueryRow", func(tx pgx.Tx) { _ = tx.QueryRow(t.Context(), "select fails()").Scan(new(int)) }, true},
		{"SendBatch, closed unread", func(tx pgx.Tx) {
			b := new(pgx.Batch)
			b.Queue("select 1")
			b.Queue("select fails()")
			_ = tx.SendBatch(t.Context(), b).Close()
		}, true},
		{"CopyFrom", func(tx pgx.Tx) {
			_, _ = tx.CopyFrom(t.Context(), pgx.Identifier{"t"}, []string{"a"}, pgx.CopyFromRows([][]any{{1}}))
		}, true},
		{"in a savepoint that is rolled back", func(tx pgx.Tx) {
			sp, _ := tx.Begin(t.Context())
			_, _ = sp.Exec(t.Context(), fails)
			_ = sp.Rollback(t.Context())
		}, true},
		{"behind the raw connection", func(tx pgx.Tx) { _, _ = tx.Conn().PgConn().Exec(t.Context(), fails).ReadAll() }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, err := pool.Acquire(t.Context())
			require.NoError(t, err)
			defer conn.Release()
			_, _ = conn.Exec(t.Context(), fails) // of another transaction before
			conflict := pgkit.WatchConflicts(conn.Conn())
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			tt.run(tx)
			if got := conflict(); got != tt.want {
				t.Errorf("conflict = %v, want %v", got, tt.want)
			}
			require.NoError(t, tx.Rollback(t.Context()))
		})
	}
}

func ExamplePrepare() {
	ctx := context.Background()
	cluster, err := pgtest.Start(ctx, pgtest.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Stop()
	cfg, err := pgxpool.ParseConfig(cluster.URL("postgres"))
	if err != nil {
		fmt.Println(err)
		return
	}
	pgkit.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	writer, err := pgkit.NewWriter(pool, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer writer.Close(ctx)
	n, err := pgkit.Exec(ctx, writer, pgkit.Statement{SQL: "select generate_series(1, $1::int)", Args: []any{3}})
	fmt.Println(n, err)
	// Output: 3 <nil>
}
