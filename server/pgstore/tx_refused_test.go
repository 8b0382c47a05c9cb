package pgstore_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// users is a guard over a database with a table of users, and the user ann.
func users(t *testing.T, cfg server.Config) (*server.Guard, *pgxpool.Pool) {
	t.Helper()
	look := pgtest.NewPool(t, migrateWithUsers)
	t.Cleanup(func() { requireSound(t, look) })
	return usersOn(t, look, cfg), look
}

func usersOn(t *testing.T, look *pgxpool.Pool, cfg server.Config) *server.Guard {
	t.Helper()
	exec(t, look, "insert into users values ('ann', 1)")
	g, err := server.NewGuard(openOn(t, look, pgstore.Config{}), server.Unscoped, cfg)
	require.NoError(t, err)
	return g
}

func migrateWithUsers(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := pgstore.Migrate(ctx, pool, schema); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, "create table users (name text constraint one_name unique, late int constraint one_late unique deferrable initially deferred)")
	return err
}

const (
	insertAnn  = "insert into users (name) values ('ann')"    // refused at once
	insertLate = "insert into users values ('bob', 1)"        // refused by the COMMIT
	insertBob  = "insert into users (name) values ('bob')"    // a row
	countUsers = "select count(*) from users where name = $1" // how many of a name
)

// raise is a statement that fails with a SQLSTATE.
func raise(code string) string {
	return "do $$ begin raise exception 'secret' using errcode = '" + code + "', detail = 'secret'; end $$"
}

func routeOn(t *testing.T, g *server.Guard, r server.Route, next http.HandlerFunc) http.Handler {
	t.Helper()
	h, err := g.Route(r, next)
	require.NoError(t, err)
	return h
}

func postTo(h http.Handler, key string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/users", strings.NewReader("{}"))
	r.Header.Set(wire.HeaderKey, key)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func requireCode(t *testing.T, w *httptest.ResponseRecorder, code wire.Code, what ...any) {
	t.Helper()
	situation, ok := code.Situation()
	require.True(t, ok)
	require.Equal(t, []any{situation.Status, string(code), fmt.Sprint(situation.Retryable)},
		[]any{w.Code, w.Header().Get(wire.HeaderCode), w.Header().Get(wire.HeaderShouldRetry)}, what...)
	require.Equal(t, situation.RetryAfter, w.Header().Get(wire.HeaderRetryAfter) != "", what...)
}

// A road is a way in which a handler sends a statement.
type road struct {
	name string
	send func(ctx context.Context, sql string) error
}

var roads = []road{
	{"Exec", func(ctx context.Context, sql string) error { _, err := pgstore.Tx(ctx).Exec(ctx, sql); return err }},
	{"Query", func(ctx context.Context, sql string) error {
		rows, err := pgstore.Tx(ctx).Query(ctx, sql)
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	}},
	{"QueryRow", func(ctx context.Context, sql string) error { return pgstore.Tx(ctx).QueryRow(ctx, sql).Scan() }},
	{"SendBatch", func(ctx context.Context, sql string) error {
		batch := new(pgx.Batch)
		batch.Queue("select 1")
		batch.Queue(sql)
		batch.Queue("select 2")
		return pgstore.Tx(ctx).SendBatch(ctx, batch).Close()
	}},
	{"CopyFrom", func(ctx context.Context, _ string) error {
		_, err := pgstore.Tx(ctx).CopyFrom(ctx, pgx.Identifier{"users"}, []string{"name"}, pgx.CopyFromRows([][]any{{"ann"}}))
		return err
	}},
	{"Conn", func(ctx context.Context, sql string) error {
		_, err := pgstore.Tx(ctx).Conn().Exec(ctx, sql)
		return err
	}},
	{"released savepoint", func(ctx context.Context, sql string) error {
		savepoint, err := pgstore.Tx(ctx).Begin(ctx)
		if err == nil {
			_, err = savepoint.Exec(ctx, sql)
		}
		return err // and nobody rolls it back
	}},
	{"database/sql Exec", func(ctx context.Context, sql string) error {
		tx, err := pgstore.SQLTx(ctx)
		if err == nil {
			_, err = tx.ExecContext(ctx, sql)
		}
		return err
	}},
	{"database/sql Query", func(ctx context.Context, sql string) error {
		tx, err := pgstore.SQLTx(ctx)
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, sql).Err()
	}},
	{"database/sql statement", func(ctx context.Context, sql string) error {
		tx, err := pgstore.SQLTx(ctx)
		if err != nil {
			return err
		}
		st, err := tx.PrepareContext(ctx, sql)
		if err != nil {
			return err
		}
		defer st.Close()
		_, err = st.ExecContext(ctx)
		return err
	}},
}

// The guard knows the refused statement, however it was sent and whatever the
// handler sent later. A 4xx is stored without rows. A 2xx becomes an error.
func TestTransactional_refusedStatement(t *testing.T) {
	t.Parallel()
	for _, w := range roads {
		for _, status := range []int{http.StatusConflict, http.StatusCreated} {
			t.Run(fmt.Sprint(w.name, " ", status), func(t *testing.T) {
				t.Parallel()
				seen := new(lastOutcome)
				g, look := users(t, server.Config{Observer: seen})
				runs := 0
				h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
					ctx := r.Context()
					runs++
					_, err := pgstore.Tx(ctx).Exec(ctx, insertBob)
					require.NoError(t, err)
					require.Error(t, w.send(ctx, insertAnn))
					_, err = pgstore.Tx(ctx).Exec(ctx, "select 1") // 25P02, which must not hide the first error
					require.Error(t, err)
					rw.WriteHeader(status)
				})
				first, again := postTo(h, "k"), postTo(h, "k")
				require.Zero(t, queryRow[int](t, look, countUsers, "bob"))
				if status == http.StatusConflict {
					require.Equal(t, []int{409, 409, 1}, []int{first.Code, again.Code, runs})
					require.Equal(t, "true", again.Header().Get(wire.HeaderReplayed))
					require.Equal(t, server.StateCompleted, server.State(queryRow[int](t, look, "select state from idempotency")))
					return
				}
				requireCode(t, first, wire.TransactionFailed)
				requireCode(t, again, wire.TransactionFailed)
				require.Equal(t, 2, runs, "released")
				var refused *store.TxError
				require.ErrorAs(t, seen.err(), &refused)
				require.Equal(t, []string{"23505", "one_name"}, []string{refused.SQLState, refused.Constraint})
				require.Equal(t, server.StateReleased, server.State(queryRow[int](t, look, "select state from idempotency")))
				require.False(t, queryRow[bool](t, look, "select maybe_ran from idempotency"))
			})
		}
	}
}

// A savepoint that was rolled back leaves a sound transaction behind.
func TestTransactional_savepointRolledBack(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"pgx": func(ctx context.Context, tx pgx.Tx) error {
			savepoint, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			_, _ = savepoint.Exec(ctx, insertAnn)
			return savepoint.Rollback(ctx)
		},
		"nested": func(ctx context.Context, tx pgx.Tx) error {
			outer, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			inner, err := outer.Begin(ctx)
			if err != nil {
				return err
			}
			_, _ = inner.Exec(ctx, insertAnn)
			_, _ = inner.Exec(ctx, "select 1") // 25P02
			if err := inner.Rollback(ctx); err != nil {
				return err
			}
			return outer.Commit(ctx)
		},
		"SQL": func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "savepoint s"); err != nil {
				return err
			}
			_, _ = tx.Exec(ctx, insertAnn)
			_, err := tx.Exec(ctx, "rollback to savepoint s")
			return err
		},
		"database/sql": func(ctx context.Context, _ pgx.Tx) error {
			tx, err := pgstore.SQLTx(ctx)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "savepoint s"); err != nil {
				return err
			}
			_, _ = tx.ExecContext(ctx, insertAnn)
			_, err = tx.ExecContext(ctx, "rollback to savepoint s")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, look := users(t, server.Config{})
			h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
				ctx := r.Context()
				_, err := pgstore.Tx(ctx).Exec(ctx, insertBob)
				require.NoError(t, err)
				require.NoError(t, do(ctx, pgstore.Tx(ctx)))
				rw.WriteHeader(http.StatusCreated)
			})
			require.Equal(t, http.StatusCreated, postTo(h, "k").Code)
			require.Equal(t, 1, queryRow[int](t, look, countUsers, "bob"))
		})
	}
}

// The failure after a savepoint counts, and the failure in the savepoint does not.
func TestTransactional_failureAfterASavepoint(t *testing.T) {
	t.Parallel()
	seen := new(lastOutcome)
	g, _ := users(t, server.Config{Observer: seen})
	h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		savepoint, err := pgstore.Tx(ctx).Begin(ctx)
		require.NoError(t, err)
		_, _ = savepoint.Exec(ctx, insertAnn)
		require.NoError(t, savepoint.Rollback(ctx))
		_, err = pgstore.Tx(ctx).Exec(ctx, "select 1 / 0")
		require.Error(t, err)
	})
	requireCode(t, postTo(h, "k"), wire.TransactionFailed)
	var refused *store.TxError
	require.ErrorAs(t, seen.err(), &refused)
	require.Equal(t, "22012", refused.SQLState)
}

// The class of the SQLSTATE decides before the handler's answer does.
func TestTransactional_sqlstateDecides(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	answered := map[int]string{201: "transaction-failed", 303: "transaction-failed", 409: "409", 429: "429", 500: "500"}
	unavailable := map[int]string{201: "store-unavailable", 303: "store-unavailable", 409: "store-unavailable", 429: "store-unavailable", 500: "store-unavailable"}
	for _, tt := range []struct {
		codes []string
		want  map[int]string
	}{
		{[]string{"08000", "25006", "53100", "53200", "55P03", "55000", "57014", "58030", "XX001", "XX000", "40002"}, unavailable},
		{[]string{"22003", "22P02", "23502", "23503", "23505", "23514", "23P01", "42501", "42P01", "P0001", "0A000", "44000"}, answered},
	} {
		for _, code := range tt.codes {
			for status, want := range tt.want {
				key := fmt.Sprint("k-", code, "-", status)
				h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
					_, err := pgstore.Tx(r.Context()).Exec(r.Context(), raise(code))
					require.Error(t, err)
					rw.WriteHeader(status)
				})
				w := postTo(h, key)
				got := w.Header().Get(wire.HeaderCode)
				if got == "" {
					got = fmt.Sprint(w.Code)
				} else {
					requireCode(t, w, wire.Code(got), key)
				}
				require.Equal(t, want, got, key)
				require.NotContains(t, w.Body.String(), "secret")
			}
		}
	}
	require.Zero(t, queryRow[int](t, look, "select count(*) from idempotency where state not in (2, 3) or maybe_ran"))
	require.Equal(t, 12, queryRow[int](t, look, "select count(*) from idempotency where state = 2"), "a 409 of each refused statement")
}

// A handler's other decisions about its answer still count after a refused statement.
func TestTransactional_refusedStatementAndItsWords(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	for i, tt := range []struct {
		name   string
		how    server.SettleOption
		status int
		want   string
		again  int // runs after a second call
	}{
		{"KeepRows, which promises rows", server.KeepRows(), 409, "transaction-failed", 2},
		{"Release", server.Release(), 409, "409", 2},
		{"Final with a 5xx", server.Final(), 500, "500", 1},
		{"Final with a 2xx", server.Final(), 200, "transaction-failed", 2},
	} {
		runs := 0
		h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
			runs++
			_, err := pgstore.Tx(r.Context()).Exec(r.Context(), insertAnn)
			require.Error(t, err)
			require.NoError(t, server.Settle(r.Context(), tt.how))
			rw.WriteHeader(tt.status)
		})
		key := fmt.Sprint("k-", i)
		w := postTo(h, key)
		got := w.Header().Get(wire.HeaderCode)
		if got == "" {
			got = fmt.Sprint(w.Code)
		}
		require.Equal(t, tt.want, got, tt.name)
		postTo(h, key)
		require.Equal(t, tt.again, runs, tt.name)
	}
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from users"))
}

// A handler can leave a transaction behind that must not be committed. The answer then is neither a success nor an
// error of the store.
func TestTransactional_handlersFault(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		do       func(ctx context.Context) error
		rows     int
		maybeRan bool // what an undo is told
	}{
		{"rows left open", func(ctx context.Context) error {
			rows, err := pgstore.Tx(ctx).Query(ctx, "insert into users (name) values ('bob'), ('cid') returning name")
			rows.Next()
			return err
		}, 0, false},
		{"an argument that pgx cannot send", func(ctx context.Context) error {
			_, _ = pgstore.Tx(ctx).Exec(ctx, "insert into users (name) values ($1)", struct{}{})
			return nil
		}, 0, false},
		{"a COMMIT of its own", func(ctx context.Context) error {
			_, err := pgstore.Tx(ctx).Exec(ctx, insertBob+"; commit")
			return err
		}, 1, true},
	} {
		for _, status := range []int{201, 409, 500} {
			t.Run(fmt.Sprint(tt.name, " ", status), func(t *testing.T) {
				t.Parallel()
				g, look := users(t, server.Config{})
				h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
					require.NoError(t, tt.do(r.Context()))
					rw.WriteHeader(status)
				})
				switch w := postTo(h, "k"); {
				case status == 201, status == 409 && tt.maybeRan: // a 409 would claim that there is no effect
					requireCode(t, w, wire.TransactionFailed)
				default:
					require.Equal(t, status, w.Code)
				}
				require.Equal(t, tt.rows, queryRow[int](t, look, countUsers, "bob"))
				require.Equal(t, tt.maybeRan, queryRow[bool](t, look, "select maybe_ran from idempotency"))
			})
		}
	}
}

// A lastOutcome remembers the error of the last refusal.
type lastOutcome struct {
	mu   sync.Mutex
	last error
}

func (o *lastOutcome) Observe(_ context.Context, e server.Event) {
	if e.Kind != server.EventRefused {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = e.Err
}

func (o *lastOutcome) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}
