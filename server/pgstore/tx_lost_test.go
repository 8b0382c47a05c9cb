package pgstore_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// kill ends the session that tx is in, and waits until it is gone. Once ctx has ended there is
// nothing left to end: the transaction fails by that.
func kill(ctx context.Context, t *testing.T, tx pgx.Tx, look *pgxpool.Pool) {
	t.Helper()
	var process int
	if err := tx.QueryRow(ctx, "select pg_backend_pid()").Scan(&process); err != nil {
		require.Error(t, ctx.Err(), "%v", err)
		return
	}
	killProcess(ctx, t, process, look)
}

func killProcess(ctx context.Context, t *testing.T, process int, look *pgxpool.Pool) {
	t.Helper()
	ctx = context.WithoutCancel(ctx)
	_, err := look.Exec(ctx, "select pg_terminate_backend($1)", process)
	require.NoError(t, err)
	until(t, "the session has ended", func() bool {
		var alive bool
		require.NoError(t, look.QueryRow(ctx, "select exists (select from pg_stat_activity where pid = $1)", process).Scan(&alive))
		return !alive
	})
}

// After its connection broke, a handler runs once more, whatever it answered.
func TestTransactional_connectionLost(t *testing.T) {
	t.Parallel()
	for _, status := range []int{201, 402, 429, 500} {
		for _, kills := range []int{1, 2} {
			t.Run(fmt.Sprint(status, " after ", kills), func(t *testing.T) {
				t.Parallel()
				g, look := users(t, server.Config{})
				runs := 0
				h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
					if runs++; runs <= kills {
						kill(r.Context(), t, pgstore.Tx(r.Context()), look)
					}
					if _, err := pgstore.Tx(r.Context()).Exec(r.Context(), insertBob); err != nil {
						rw.WriteHeader(status)
						return
					}
					rw.WriteHeader(http.StatusCreated)
				})
				w := postTo(h, "k")
				require.Equal(t, 2, runs)
				if kills == 2 {
					requireCode(t, w, wire.StoreUnavailable)
					require.Zero(t, queryRow[int](t, look, countUsers, "bob"))
					w = postTo(h, "k") // at once: the dead run's lease has ended
					require.Equal(t, 1, queryRow[int](t, look, "select recovery_attempts from idempotency"))
				}
				require.Equal(t, http.StatusCreated, w.Code)
				require.Equal(t, 1, queryRow[int](t, look, countUsers, "bob"))
			})
		}
	}
}

// A key whose handler ends its session each time is quarantined, like the key of a handler that ends its process.
func TestTransactional_connectionLostEachTime(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{MaxRecoveryAttempts: 1})
	runs := 0
	h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) {
		runs++
		_, err := pgstore.Tx(r.Context()).Exec(r.Context(), "select pg_terminate_backend(pg_backend_pid())")
		require.Error(t, err)
	})
	requireCode(t, postTo(h, "k"), wire.StoreUnavailable)
	requireCode(t, postTo(h, "k"), wire.StoreUnavailable)
	requireCode(t, postTo(h, "k"), wire.Poisoned)
	require.Equal(t, 4, runs)
	const open = "select count(*) from pg_stat_activity where datname = current_database() and state = 'idle in transaction'"
	require.Zero(t, queryRow[int](t, look, open))
}

// The pool's other connections broke with the first, as after a restart of the server. The second run still gets a
// connection that works.
func TestTransactional_allConnectionsLost(t *testing.T) {
	t.Parallel()
	seen := new(trips)
	s, look := open(t, pgstore.Config{}, seen.watch) // which keeps the pool from asking idle connections
	g, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	runs := 0
	h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if runs++; runs > 1 {
			_, err := pgstore.Tx(ctx).Exec(ctx, "select 1")
			require.NoError(t, err)
			return
		}
		for range 3 { // idle ones besides this run's
			_, _ = pgstore.Tx(ctx).Exec(ctx, "select 1")
			idle(ctx, t, s)
		}
		_, err := look.Exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity
			where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`)
		require.NoError(t, err)
		until(t, "the sessions have ended", func() bool {
			return queryRow[int](t, look, `select count(*) from pg_stat_activity
				where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`) == 0
		})
	})
	w := postTo(h, "k")
	require.Equal(t, []int{200, 2}, []int{w.Code, runs}, w.Body)
}

// idle makes the pool of store have several idle connections.
func idle(ctx context.Context, t *testing.T, s *pgstore.Store) {
	t.Helper()
	var open []store.Tx
	for range 3 {
		tx, err := s.Begin(ctx)
		require.NoError(t, err)
		_, err = pgstore.Tx(tx.NewContext(ctx)).Exec(ctx, "select 1")
		require.NoError(t, err)
		open = append(open, tx)
	}
	for _, tx := range open {
		require.NoError(t, tx.Rollback(ctx))
	}
}

// A deadline is a context whose deadline passes when the test says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d *deadline) Done() <-chan struct{} { return d.passed }

func (d *deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// pgx closes the connection when the ctx of a statement ends before its answer. Another run would take the same time, so
// there is none, no death is counted, and nobody is told that the store is away. The caller gets what the handler answers
// to that, or may send the request again.
func TestTransactional_statementCutOff(t *testing.T) {
	t.Parallel()
	for _, w := range roads {
		for status, code := range map[int]wire.Code{201: wire.TransactionFailed, 409: wire.TransactionFailed, 429: "", 500: ""} {
			t.Run(fmt.Sprint(w.name, " ", status), func(t *testing.T) {
				t.Parallel()
				if w.name == "CopyFrom" {
					t.Skip("it has no statement to wait in")
				}
				var log bytes.Buffer
				seen := new(storeErrors)
				g, look := users(t, server.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Observer: seen})
				runs := 0
				h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
					if runs++; runs == 1 {
						cutOff(t, look, r.Context(), status > 400, w.send)
						_, err := pgstore.Tx(r.Context()).Exec(r.Context(), insertBob)
						require.Error(t, err, "which must not hide why the connection is closed")
					}
					rw.WriteHeader(status)
				})
				first := postTo(h, "k")
				require.Equal(t, 1, runs)
				require.Equal(t, []any{"true", string(code)}, []any{first.Header().Get(wire.HeaderShouldRetry), first.Header().Get(wire.HeaderCode)})
				require.Equal(t, max(status, 500*len(code)/max(len(code), 1)), first.Code)
				require.NotContains(t, first.Body.String(), "store")
				require.Contains(t, log.String(), "raise the HandlerTimeout")
				require.Zero(t, seen.n.Load())
				require.Equal(t, "3 0", queryRow[string](t, look, "select state || ' ' || recovery_attempts from idempotency"), "released, and no death")
				require.Equal(t, status, postTo(h, "k").Code)
			})
		}
	}
}

// A handler that commits by itself, although it must not, does not run again, whatever happens to its connection
// afterwards: what it committed would be there twice.
func TestTransactional_failsAfterItsOwnCommit(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, ctx context.Context, look *pgxpool.Pool){
		"lost": func(t *testing.T, ctx context.Context, look *pgxpool.Pool) { kill(ctx, t, pgstore.Tx(ctx), look) },
		"cut off": func(t *testing.T, ctx context.Context, look *pgxpool.Pool) {
			cutOff(t, look, ctx, false, roads[0].send)
		},
		"a conflict": func(t *testing.T, ctx context.Context, _ *pgxpool.Pool) {
			_, err := pgstore.Tx(ctx).Exec(ctx, raise("40001"))
			require.Error(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, look := users(t, server.Config{})
			runs := 0
			h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) {
				ctx := r.Context()
				runs++
				for _, sql := range []string{insertBob, "commit", "begin", "insert into users (name) values ('cid')"} {
					_, err := pgstore.Tx(ctx).Exec(ctx, sql)
					require.NoError(t, err)
				}
				fail(t, ctx, look)
			})
			requireCode(t, postTo(h, "k"), wire.TransactionFailed)
			require.Equal(t, 1, runs)
			require.Equal(t, []int{1, 0}, []int{queryRow[int](t, look, countUsers, "bob"), queryRow[int](t, look, countUsers, "cid")})
			require.True(t, queryRow[bool](t, look, "select maybe_ran from idempotency"))
		})
	}
}

// cutOff sends a statement that takes very long, and ends its ctx: by its deadline, or because the handler gave it up.
func cutOff(t *testing.T, look *pgxpool.Pool, parent context.Context, late bool, send func(context.Context, string) error) {
	t.Helper()
	ctx, end := context.WithCancel(parent)
	if late {
		passed := make(chan struct{})
		ctx, end = &deadline{parent, passed}, func() { close(passed) }
	}
	failed := inBackground(func() error { return send(ctx, "select pg_sleep(600)") })
	// A statement that was never sent leaves the transaction whole.
	until(t, "the statement runs", func() bool { return waits(t, look, "PgSleep") })
	end()
	require.Error(t, <-failed)
}

// storeErrors counts what is reported as an error of the store.
type storeErrors struct{ n atomic.Int32 }

func (s *storeErrors) Observe(_ context.Context, e server.Event) {
	if e.Kind == server.EventStoreError {
		s.n.Add(1)
	}
}

// pgx closes the connection of a batch with an argument that it cannot send. That is an error of the handler, and it
// is not run again.
func TestTransactional_batchThatCannotBeSent(t *testing.T) {
	t.Parallel()
	g, _ := users(t, server.Config{})
	runs := 0
	h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
		runs++
		_, err := pgstore.Tx(r.Context()).Exec(r.Context(), insertBob)
		require.NoError(t, err)
		batch := new(pgx.Batch)
		batch.Queue("insert into users (name) values ($1)", "cid")
		batch.Queue("insert into users (name) values ($1)", struct{}{})
		require.Error(t, pgstore.Tx(r.Context()).SendBatch(r.Context(), batch).Close())
		rw.WriteHeader(http.StatusCreated)
	})
	requireCode(t, postTo(h, "k"), wire.TransactionFailed)
	require.Equal(t, 1, runs)
}

// The connection of a completion hook is lost. The hook runs again. The handler does not, because its effects are
// outside.
func TestOnComplete_connectionLost(t *testing.T) {
	t.Parallel()
	for _, swallowed := range []bool{false, true} {
		g, look := users(t, server.Config{})
		runs, hooks := 0, 0
		h := routeOn(t, g, server.Route{Effect: server.Keyed}, func(rw http.ResponseWriter, r *http.Request) {
			runs++
			require.NoError(t, pgstore.OnComplete(r.Context(), func(ctx context.Context, tx pgx.Tx) error {
				if hooks++; hooks <= 3 {
					kill(ctx, t, tx, look)
				}
				_, err := tx.Exec(ctx, insertBob)
				if swallowed {
					return nil
				}
				return err
			}))
			rw.WriteHeader(http.StatusCreated)
		})
		require.Equal(t, http.StatusCreated, postTo(h, "k").Code)
		require.Equal(t, "true", postTo(h, "k").Header().Get(wire.HeaderReplayed))
		require.Equal(t, []int{1, 4, 1}, []int{runs, hooks, queryRow[int](t, look, countUsers, "bob")}, "runs, hooks, rows")
	}
}

// A hook whose statement the server refused has failed, also if the hook ignored the error, and also if only the
// COMMIT reports it.
func TestOnComplete_refused(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{insertAnn, insertLate} {
		g, look := users(t, server.Config{})
		runs := 0
		h := routeOn(t, g, server.Route{Effect: server.Keyed}, func(rw http.ResponseWriter, r *http.Request) {
			runs++
			require.ErrorIs(t, pgstore.OnComplete(r.Context(), nil), store.ErrNoHook)
			require.NoError(t, pgstore.OnComplete(r.Context(), func(ctx context.Context, tx pgx.Tx) error {
				_, _ = tx.Exec(ctx, statement)
				return nil
			}))
			rw.WriteHeader(http.StatusCreated)
		})
		requireCode(t, postTo(h, "k"), wire.TransactionFailed)
		require.Equal(t, server.StateReleased, server.State(queryRow[int](t, look, "select state from idempotency")))
		require.True(t, queryRow[bool](t, look, "select maybe_ran from idempotency"))
		postTo(h, "k")
		require.Equal(t, 2, runs)
	}
}
