package pgkit_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/pgtest"
)

func oneConnection(cfg *pgxpool.Config) { cfg.MaxConns = 1 }

// names returns how many statements the pool's one session knows by name.
func names(tb testing.TB, pool *pgxpool.Pool) (n int) {
	tb.Helper()
	require.NoError(tb, pool.QueryRow(tb.Context(), "select count(*) from pg_prepared_statements where statement not like '%client_min_messages%'", pgx.QueryExecModeExec).Scan(&n))
	return n
}

var fortyTwo = pgkit.Statement{SQL: "select 42"}

func TestNames(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*pgxpool.Pool, *pgkit.Writer) error{
		"a write": func(_ *pgxpool.Pool, w *pgkit.Writer) error {
			_, _, err := pgkit.Row(t.Context(), w, fortyTwo, pgx.RowTo[int])
			return err
		},
		"a read": func(pool *pgxpool.Pool, _ *pgkit.Writer) error {
			_, err := pgkit.One(t.Context(), pool, fortyTwo, pgx.RowTo[int])
			return err
		},
		"a read that others may share": func(pool *pgxpool.Pool, _ *pgkit.Writer) error {
			c, err := pgkit.NewReadCombiner(pool, pgkit.CombinerConfig{})
			require.NoError(t, err)
			kind := pgkit.NewBatchKind(c, pgkit.BatchKindConfig[int, int]{
				One: func(int) pgkit.Statement { return fortyTwo }, ScanOne: pgx.RowTo[int],
			})
			_, _, err = kind.Do(t.Context(), 1)
			return err
		},
		"in a transaction": func(_ *pgxpool.Pool, w *pgkit.Writer) error {
			_, err := pgkit.Tx(t.Context(), w, func(ctx context.Context, tx pgx.Tx) (int, error) {
				if err := pgkit.Name(ctx, tx.Conn(), fortyTwo.SQL); err != nil {
					return 0, err
				}
				return pgkit.One(ctx, tx, fortyTwo, pgx.RowTo[int])
			})
			return err
		},
	}
	isolated := func(cfg *pgxpool.Config) {
		cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	}
	described := func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	for _, tt := range []struct {
		name   string
		url    func(testing.TB) string
		change func(*pgxpool.Config)
		want   int
	}{
		{"direct", pgtest.URL, func(*pgxpool.Config) {}, 1},
		{"direct, in a block of its own", pgtest.URL, isolated, 1},
		{"a mode that was chosen", pgtest.URL, described, 0},
		{"through a pooler", func(tb testing.TB) string { return pgtest.PooledURL(tb, pgtest.URL(tb)) }, func(*pgxpool.Config) {}, 0},
	} {
		for way, do := range ways {
			t.Run(tt.name+", "+way, func(t *testing.T) {
				t.Parallel()
				pool := newPoolAt(t, tt.url(t), oneConnection, tt.change)
				w := newWriter(t, pool, 0)
				for range 3 {
					require.NoError(t, do(pool, w))
					require.Equal(t, tt.want, names(t, pool))
				}
			})
		}
	}
}

// A handler that cleans up, an unrecognized pooler, or a migration under a running process can make
// a connection lose its names. Nobody notices.
func TestNames_lost(t *testing.T) {
	t.Parallel()
	const table = "create table t (n int); insert into t values (7)"
	get := pgkit.Statement{SQL: "select n from t"}
	put := pgkit.Statement{SQL: "update t set n = n returning n"}
	for _, tt := range []struct{ name, sql string }{
		{"deallocated", "deallocate all"},
		{"of another type", "alter table t alter n type bigint"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, oneConnection)
			w := newWriter(t, pool, 0)
			exec(t, pool, table)
			for _, do := range []func() error{
				func() error { _, _, err := pgkit.Row(t.Context(), w, put, pgx.RowTo[int]); return err },
				func() error { _, err := pgkit.One(t.Context(), pool, get, pgx.RowTo[int]); return err },
				func() error { _, err := pgkit.Rows(t.Context(), w, put, pgx.RowTo[int]); return err },
			} {
				pool.Reset() // each begins with a session that may have names
				require.NoError(t, do())
				require.Equal(t, 1, names(t, pool))
				exec(t, pool, tt.sql)
				require.NoError(t, do())
				require.Equal(t, 0, names(t, pool), "it goes on without")
				require.NoError(t, do())
				exec(t, pool, "alter table t alter n type int")
			}
		})
	}
}

// A flush goes again as a whole, also where the block that it was in has failed.
func TestNames_lostInAFlush(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "repeatable read"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1, pgkit.CombinerConfig{}, session("default_transaction_isolation", level))
			for i, lose := range []string{"select 1", "deallocate all"} {
				release := b.hold(t)
				done := b.queue(t.Context(), t, put{10 * i, 1}, put{10*i + 1, 1}, put{10*i + 2, 1})
				release()
				for _, d := range done {
					require.NoError(t, (<-d).err)
				}
				require.Equal(t, 1, names(t, b.pool))
				exec(t, b.pool, lose)
			}
			release := b.hold(t)
			done := b.queue(t.Context(), t, put{100, 1}, put{101, 1}, put{102, 1})
			release()
			for _, d := range done {
				require.NoError(t, (<-d).err)
			}
			require.Equal(t, 0, names(t, b.pool))
			require.Equal(t, 3, queryRow[int](t, b.look, "select count(*) from t where id >= 100 and sent like 'together%'"))
		})
	}
}

// A name that is missing inside a transaction makes the transaction fail, and the next transaction
// succeeds.
func TestNames_lostInATransaction(t *testing.T) {
	t.Parallel()
	pool := newPool(t, oneConnection)
	w := newWriter(t, pool, 0)
	do := func(first string) error {
		_, err := pgkit.Tx(t.Context(), w, func(ctx context.Context, tx pgx.Tx) (int, error) {
			if _, err := tx.Exec(ctx, first, pgx.QueryExecModeSimpleProtocol); err != nil {
				return 0, err
			}
			if err := pgkit.Name(ctx, tx.Conn(), fortyTwo.SQL); err != nil {
				return 0, err
			}
			return pgkit.One(ctx, tx, fortyTwo, pgx.RowTo[int])
		})
		return err
	}
	require.NoError(t, do("select 1"))
	require.Error(t, do("deallocate all"))
	require.NoError(t, do("deallocate all"))
	require.Equal(t, 0, names(t, pool))
}

// The error of a wrong statement is the same as without names.
func TestNames_wrongStatement(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	w := newWriter(t, pool, 0)
	bad := pgkit.Statement{SQL: "select n from nowhere"}
	_, _, err := pgkit.Row(t.Context(), w, bad, pgx.RowTo[int])
	require.Equal(t, pgkit.FailureRefused, pgkit.Classify(err), err)
	_, err = pgkit.One(t.Context(), pool, bad, pgx.RowTo[int])
	require.Equal(t, pgkit.FailureRefused, pgkit.Classify(err), err)
}

// Another statement's error about a name must not decide the fate of a write whose answer was lost:
// the write may be durable.
func TestNames_fateIsTheWritesOwn(t *testing.T) {
	t.Parallel()
	pool := newPool(t, oneConnection)
	w := newWriter(t, pool, 0)
	_, err := pool.Exec(t.Context(), "execute nowhere")
	require.Error(t, err)
	end := pgkit.Statement{SQL: "select pg_terminate_backend(pg_backend_pid())"}
	_, _, err = pgkit.Row(t.Context(), w, end, pgx.RowTo[bool])
	require.ErrorIs(t, err, pgkit.ErrFateUnknown)
}

// A name that the user gave stays, whatever becomes of ours.
func TestNames_ofTheUser(t *testing.T) {
	t.Parallel()
	pool := newPool(t, oneConnection, func(cfg *pgxpool.Config) {
		cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Prepare(ctx, "add one", "select $1::int + 1")
			return err
		}
	})
	w := newWriter(t, pool, 0)
	for range 3 {
		sum := 0
		batch := new(pgx.Batch)
		batch.Queue("add one", 41).QueryRow(func(row pgx.Row) error { return row.Scan(&sum) })
		require.NoError(t, pgkit.SendBatch(t.Context(), w, batch, false))
		require.Equal(t, 42, sum)
		_, err := pool.Exec(t.Context(), "execute nowhere")
		require.Error(t, err)
	}
}
