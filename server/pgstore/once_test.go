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

func TestStore_SendOnce(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*pgxpool.Config){"": func(*pgxpool.Config) {}, "serializable": serializable} {
		pool := ledger(t)
		seen := new(trips)
		s := openOn(t, pool, pgstore.Config{}, change, size(1), seen.watch)
		var rows int64
		batch := new(pgx.Batch)
		batch.Queue("insert into effect values ($1)", "a")
		batch.Queue("insert into effect values ($1)", "b").Exec(func(tag pgconn.CommandTag) error {
			rows += tag.RowsAffected()
			return nil
		})
		send := func(key, payload string) (bool, error) {
			return s.SendOnce(t.Context(), invoice(t, key, payload), batch)
		}
		first, err := send("k", "p")
		require.NoError(t, err, name)
		require.True(t, first)
		require.EqualValues(t, 1, seen.count(func() { first, err = send("l", "p") }), "round trips %s", name)
		require.NoError(t, err)
		require.True(t, first)
		for range 2 {
			first, err = send("k", "p")
			require.NoError(t, err, name)
			require.False(t, first)
			_, err = send("k", "q")
			require.ErrorIs(t, err, &server.RefusedError{Code: wire.KeyReused})
		}
		require.EqualValues(t, 2, rows)
		require.Equal(t, 4, queryRow[int](t, pool, "select count(*) from effect"))
		require.Equal(t, 1, queryRow[int](t, pool, "select count(distinct e.xmin::text) from effect e, idempotency i where e.xmin = i.xmin and i.key = $1",
			[16]byte(store.NewID("tenant", "", keyOf(t, "k")))), "one transaction")
		again, err := bill(t.Context(), pool, "", invoice(t, "k", "p"))
		require.NoError(t, err)
		require.False(t, again, "all forms know each other's keys")
	}
}

// An error of the work does not count as a key that was used.
func TestStore_SendOnce_workFails(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	s := openOn(t, pool, pgstore.Config{})
	exec(t, pool, "create table own (id int primary key)")
	for query, code := range map[string]string{
		"insert into own select length($1) from generate_series(1, 2)":                 "23505",
		"insert into nowhere values ($1)":                                              "42P01",
		"insert into effect select $1 || (n || 'x')::int from generate_series(1, 1) n": "22P02",
	} {
		batch := new(pgx.Batch)
		batch.Queue("insert into effect values ('a')")
		batch.Queue(query, "b")
		first, err := s.SendOnce(t.Context(), invoice(t, "k", "p"), batch)
		require.False(t, first)
		require.NotErrorIs(t, err, pgstore.ErrDuplicate)
		require.NotErrorIs(t, err, store.ErrFateUnknown)
		pgErr := new(pgconn.PgError)
		require.ErrorAs(t, err, &pgErr)
		require.Equal(t, code, pgErr.Code)
	}
	require.Zero(t, queryRow[int](t, pool, "select count(*) from effect"))
	require.Zero(t, queryRow[int](t, pool, "select count(*) from idempotency"), "the key can be used")

	begun := new(pgx.Batch)
	begun.BeginTx(pgx.TxOptions{})
	for _, batch := range []*pgx.Batch{nil, new(pgx.Batch), begun} {
		_, err := s.SendOnce(t.Context(), invoice(t, "k", "p"), batch)
		require.ErrorIs(t, err, pgstore.ErrArgument)
	}
	batch := new(pgx.Batch)
	batch.Queue("select 1")
	_, err := s.SendOnce(t.Context(), pgstore.OnceRequest{}, batch)
	require.ErrorIs(t, err, pgstore.ErrArgument)
}
