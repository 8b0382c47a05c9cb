package pgstore_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// requireNoTx holds that ctx shows no transaction by any accessor.
func requireNoTx(t *testing.T, ctx context.Context) {
	t.Helper()
	_, err := pgstore.Tx(ctx).Exec(ctx, "select 1")
	require.ErrorIs(t, err, pgstore.ErrNoTx)
	_, err = pgstore.SQLTx(ctx)
	require.ErrorIs(t, err, pgstore.ErrNoTx)
	require.ErrorIs(t, pgstore.Queue(ctx, "select 1"), pgstore.ErrNoTx)
	require.ErrorIs(t, memstore.Tx(ctx).Do(func() {}), memstore.ErrNoTx)
}

// A run inside another one is settled by itself. If it wrote into the outer transaction, the roll-back of the outer
// run would take its rows, while its key stays completed.
func TestNestedRun_seesNoTransactionOfAnother(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	exec(t, look, "create table entry (name text)")
	add := func(ctx context.Context, name string) error {
		_, err := pgstore.Tx(ctx).Exec(ctx, "insert into entry values ($1)", name)
		return err
	}
	g, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	elsewhere, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(t, err)

	// inner runs fn under a key of its own.
	inner := func(ctx context.Context, g *server.Guard, effect server.Effect, fn func(ctx context.Context)) {
		task := server.Task{Name: "inner", Scope: "unscoped", Effect: effect}
		_, _, err := g.Do(ctx, task, childkey.MustNew(), nil, func(ctx context.Context) (server.Response, error) {
			fn(ctx)
			return server.Response{Status: 200}, nil
		})
		must(err)
	}
	inners := []struct {
		name string
		run  func(ctx context.Context)
		rows int // that outlive the outer run
	}{
		{"Keyed", func(ctx context.Context) {
			inner(ctx, g, server.Keyed, func(ctx context.Context) { requireNoTx(t, ctx) })
		}, 0},
		{"Opaque", func(ctx context.Context) {
			inner(ctx, g, server.Opaque, func(ctx context.Context) { requireNoTx(t, ctx) })
		}, 0},
		{"Keyed over another store", func(ctx context.Context) {
			inner(ctx, elsewhere, server.Keyed, func(ctx context.Context) { requireNoTx(t, ctx) })
		}, 0},
		{"Transactional over another store", func(ctx context.Context) {
			inner(ctx, elsewhere, server.Transactional, func(ctx context.Context) {
				require.ErrorIs(t, add(ctx, "inner"), pgstore.ErrNoTx)
				require.NoError(t, memstore.Tx(ctx).Do(func() {}))
			})
		}, 0},
		{"Transactional", func(ctx context.Context) {
			inner(ctx, g, server.Transactional, func(ctx context.Context) { must(add(ctx, "inner")) })
		}, 1},
		{"the hook of a Keyed run", func(ctx context.Context) {
			inner(ctx, g, server.Keyed, func(ctx context.Context) {
				must(pgstore.OnComplete(ctx, func(ctx context.Context, tx pgx.Tx) error {
					requireNoHook(t, ctx)
					return add(ctx, "hook")
				}))
			})
		}, 1},
		{"OnceFunc", func(ctx context.Context) {
			req := pgstore.OnceRequest{Scope: "s", Name: "n", Key: childkey.MustNew()}
			first, err := s.OnceFunc(ctx, req, func(ctx context.Context, _ pgx.Tx) error { return add(ctx, "once") })
			must(err)
			require.True(t, first)
		}, 1},
		{"Keyed in OnceFunc", func(ctx context.Context) {
			req := pgstore.OnceRequest{Scope: "s", Name: "n", Key: childkey.MustNew()}
			_, err := s.OnceFunc(ctx, req, func(ctx context.Context, _ pgx.Tx) error {
				inner(ctx, g, server.Keyed, func(ctx context.Context) { requireNoTx(t, ctx) })
				return add(ctx, "once")
			})
			must(err)
		}, 1},
	}
	for i, tt := range inners {
		t.Run(tt.name, func(t *testing.T) {
			exec(t, look, "delete from entry")
			h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(w http.ResponseWriter, r *http.Request) {
				must(add(r.Context(), "outer"))
				tt.run(r.Context())
				must(add(r.Context(), "outer again")) // its own transaction is as it was
				w.WriteHeader(http.StatusInternalServerError)
			})
			require.Equal(t, http.StatusInternalServerError, postTo(h, fmt.Sprint("outer-", i)).Code)
			require.Equal(t, tt.rows, queryRow[int](t, look, "select count(*) from entry"), "rows of the inner run")
		})
	}
}

// requireNoHook holds that a hook registers no further hook with the run around its own.
func requireNoHook(t *testing.T, ctx context.Context) {
	t.Helper()
	err := pgstore.OnComplete(ctx, func(context.Context, pgx.Tx) error { return nil })
	require.ErrorIs(t, err, server.ErrNoRun)
}

// A route is asked about a dead run by whoever meets it, also inside of another run.
func TestNestedRun_reconcileBelongsToNoRun(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	g, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	asked, fail := 0, true
	charge := routeOn(t, g, server.Route{Name: "charge", Effect: server.Opaque, Reconcile: func(ctx context.Context, _ store.Record) (server.Resolution, error) {
		asked++
		requireNoTx(t, ctx)
		requireNoHook(t, ctx)
		_, ok := childkey.FromContext(ctx)
		require.False(t, ok, "a call made here would get the outer run's child key")
		return server.NeverHappened(), nil
	}}, func(w http.ResponseWriter, _ *http.Request) {
		if fail {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	outer := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) {
		_, err := pgstore.Tx(r.Context()).Exec(r.Context(), "select 1")
		must(err)
		again := httptest.NewRequestWithContext(r.Context(), http.MethodPost, "/users", strings.NewReader("{}"))
		again.Header.Set(wire.HeaderKey, "charge")
		w := httptest.NewRecorder()
		charge.ServeHTTP(w, again)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
	})
	require.Equal(t, http.StatusInternalServerError, postTo(charge, "charge").Code)
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from idempotency where state = 4"))
	fail = false
	require.Equal(t, http.StatusOK, postTo(outer, "outer").Code)
	require.Equal(t, 1, asked)
}
