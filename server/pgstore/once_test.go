package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

func keyOf(tb testing.TB, text string) childkey.Key {
	tb.Helper()
	k, err := childkey.Parse(text)
	require.NoError(tb, err)
	return k
}

func invoice(tb testing.TB, key, payload string) pgstore.OnceRequest {
	tb.Helper()
	return pgstore.OnceRequest{Scope: "tenant", Name: "invoice", Key: keyOf(tb, key), Payload: []byte(payload)}
}

// ledger is a pool over a database with the store's tables and one for effects.
func ledger(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool := pgtest.NewPool(tb, pgstore.Migrate)
	exec(tb, pool, "create table effect (what text)")
	return pool
}

// bill writes an effect once, in a transaction of its own.
func bill(ctx context.Context, pool *pgxpool.Pool, level pgx.TxIsoLevel, req pgstore.OnceRequest) (first bool, err error) {
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
		if first, err = pgstore.Once(ctx, tx, req); err != nil || !first {
			return err
		}
		_, err = tx.Exec(ctx, "insert into effect values ($1)", req.Key.String())
		return err
	})
	return first, err
}

func TestOnce(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := ledger(t)
			var wg sync.WaitGroup
			var firsts atomic.Int32
			for range 64 {
				wg.Go(func() {
					for {
						first, err := bill(t.Context(), pool, level, invoice(t, "k", "p"))
						if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) && pgErr.Code == "40001" {
							continue // as the level asks of everybody
						}
						if err != nil {
							t.Error(err)
						}
						if first {
							firsts.Add(1)
						}
						return
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, 1, firsts.Load())
			require.Equal(t, 1, queryRow[int](t, pool, "select count(*) from effect"))
		})
	}
}

func TestOnce_rollsBackWithItsTransaction(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	first, err := pgstore.Once(t.Context(), tx, invoice(t, "k", "p"))
	require.NoError(t, err)
	require.True(t, first)
	again, err := pgstore.Once(t.Context(), tx, invoice(t, "k", "p"))
	require.NoError(t, err)
	require.False(t, again)

	waits := make(chan bool)
	go func() {
		first, err := bill(t.Context(), pool, pgx.ReadCommitted, invoice(t, "k", "p"))
		waits <- first && err == nil
	}()
	require.Eventually(t, func() bool {
		return queryRow[int](t, pool, "select count(*) from pg_locks where not granted") > 0
	}, 2*time.Minute, 5*time.Millisecond, "the other never waited")
	require.NoError(t, tx.Rollback(t.Context()))
	require.True(t, <-waits, "who waited is the first")
}

func TestOnce_refuses(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	s := openOn(t, pool, pgstore.Config{})
	_, err := bill(t.Context(), pool, "", invoice(t, "k", "p"))
	require.NoError(t, err)
	g, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	_, err = do(t, g, server.Keyed, "guarded", func(context.Context) (int, error) { return 0, nil })
	require.NoError(t, err)
	_, _, err = s.Cancel(t.Context(), store.CancelRequest{ID: store.NewID("tenant", "", keyOf(t, "cancelled")), Token: random(), Keep: time.Hour})
	require.NoError(t, err)

	other := invoice(t, "k", "p")
	other.Name = "receipt"
	for _, tt := range []struct {
		name string
		req  pgstore.OnceRequest
		want wire.Code // "": done before
	}{
		{"the same", invoice(t, "k", "p"), ""},
		{"another payload", invoice(t, "k", "q"), wire.KeyReused},
		{"another name", other, wire.KeyReused},
		{"a guarded key", invoice(t, "guarded", ""), wire.KeyReused},
		{"a cancelled key", invoice(t, "cancelled", ""), wire.KeyCancelled},
	} {
		first, err := bill(t.Context(), pool, "", tt.req)
		require.False(t, first, tt.name)
		if tt.want == "" {
			require.NoError(t, err, tt.name)
		} else {
			require.ErrorIs(t, err, &server.RefusedError{Code: tt.want}, tt.name)
		}
	}
	require.Equal(t, 1, queryRow[int](t, pool, "select count(*) from effect"))
	for _, change := range []func(*pgstore.OnceRequest){
		func(r *pgstore.OnceRequest) { r.Scope = "tenant 2" },
		func(r *pgstore.OnceRequest) { r.Namespace = "other" },
	} {
		req := invoice(t, "k", "q")
		change(&req)
		first, err := bill(t.Context(), pool, "", req)
		require.NoError(t, err)
		require.True(t, first)
	}
	l, err := g.Lookup(t.Context(), "tenant", keyOf(t, "k"))
	require.NoError(t, err)
	require.Equal(t, server.StateCompleted, l.State)
}

func TestOnce_badInput(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, nil) // without the tables: nothing is to be sent
	for _, tt := range []struct {
		name   string
		change func(*pgstore.OnceRequest)
	}{
		{"no scope", func(r *pgstore.OnceRequest) { r.Scope = "" }},
		{"long scope", func(r *pgstore.OnceRequest) { r.Scope = strings.Repeat("s", 1025) }},
		{"no name", func(r *pgstore.OnceRequest) { r.Name = "" }},
		{"no key", func(r *pgstore.OnceRequest) { r.Key = childkey.Key{} }},
		{"negative", func(r *pgstore.OnceRequest) { r.Keep = -1 }},
		{"schema", func(r *pgstore.OnceRequest) { r.Schema = "a; drop table x" }},
	} {
		req := invoice(t, "k", "p")
		tt.change(&req)
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = pgstore.Once(t.Context(), tx, req)
		require.ErrorIs(t, err, pgstore.ErrArgument, tt.name)
		require.ErrorIs(t, req.Queue(new(pgx.Batch)), pgstore.ErrArgument, tt.name)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	_, err := pgstore.Once(t.Context(), nil, invoice(t, "k", "p"))
	require.ErrorIs(t, err, pgstore.ErrArgument)
	_, err = invoice(t, "k", "p").OnceSQL(t.Context(), nil)
	require.ErrorIs(t, err, pgstore.ErrArgument)
	_, err = bill(t.Context(), pool, "", invoice(t, "k", "p"))
	require.ErrorContains(t, err, "42P01", "a database without the tables")
}

func TestOnceSQL(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for _, want := range []bool{true, false} {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		first, err := invoice(t, "k", "p").OnceSQL(t.Context(), tx)
		require.NoError(t, err)
		require.Equal(t, want, first)
		_, err = invoice(t, "k", "q").OnceSQL(t.Context(), tx)
		require.ErrorIs(t, err, &server.RefusedError{Code: wire.KeyReused})
		require.NoError(t, tx.Commit())
	}
}

// The first time, key, work and COMMIT take one round trip. The second time nothing happens.
func TestOnce_queue(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	for i := range 3 {
		batch := new(pgx.Batch)
		require.NoError(t, invoice(t, "k", "p").Queue(batch))
		batch.Queue("insert into effect values ('once')")
		err := pool.SendBatch(t.Context(), batch).Close() // an implicit transaction
		if i == 0 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, pgstore.OnceRequest{}.BatchError(err), pgstore.ErrDuplicate)
		}
	}
	require.Equal(t, 1, queryRow[int](t, pool, "select count(*) from effect"))
	require.NoError(t, pgstore.OnceRequest{}.BatchError(nil))
	require.NotErrorIs(t, pgstore.OnceRequest{}.BatchError(errors.New("other")), pgstore.ErrDuplicate)
	first, err := bill(t.Context(), pool, "", invoice(t, "k", "p"))
	require.NoError(t, err)
	require.False(t, first, "both forms know each other's keys")
}
