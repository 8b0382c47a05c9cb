package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// oneCommit is a route whose claim is committed with its work.
var oneCommit = server.Route{Effect: server.Transactional, OneCommit: true}

// must fails the handler, and the test.
func must(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(err)
	}
}

// queueBob adds a user with the answer.
func queueBob(rw http.ResponseWriter, r *http.Request) {
	must(pgstore.Queue(r.Context(), "insert into users (name) values ($1)", "bob"))
	rw.Header().Set("Location", "/users/bob")
	rw.WriteHeader(http.StatusCreated)
	fmt.Fprint(rw, "made")
}

// The first call of a key is one round trip. A duplicate is a pipeline that fails and a read, and a read where one
// came lately or where the request says that it is a retry.
func TestOneCommit_roundTrips(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			seen := new(trips)
			s, look := open(t, pgstore.Config{Isolation: level}, seen.watch, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
			exec(t, look, "create table users (name text, late int)")
			g, err := server.NewGuard(s, server.Unscoped, server.Config{})
			require.NoError(t, err)
			h := routeOn(t, g, oneCommit, queueBob)
			var last int64
			for i := range 4 {
				last = seen.count(func() { require.Equal(t, http.StatusCreated, postTo(h, fmt.Sprint("k", i)).Code) })
			}
			require.EqualValues(t, 1, last, "the claim, the work, the answer and the commit")
			require.Equal(t, 4, queryRow[int](t, look, countUsers, "bob"))

			replay := func(headers ...string) int64 {
				return seen.count(func() {
					w := postTo(h, "k1", headers...)
					require.Equal(t, []string{"201", "made", "/users/bob", "true"},
						[]string{fmt.Sprint(w.Code), w.Body.String(), w.Header().Get("Location"), w.Header().Get(wire.HeaderReplayed)})
				})
			}
			replay(wire.HeaderRetryAttempt, "2") // describes the read
			require.EqualValues(t, 1, replay(wire.HeaderRetryAttempt, "2"), "a read")
			failed := map[pgx.TxIsoLevel]int{pgx.ReadCommitted: 1, pgx.Serializable: 2} // with a BEGIN there is a ROLLBACK
			require.EqualValues(t, failed[level]+1, replay(), "a claim and a read")
			require.EqualValues(t, 1, replay(), "a read: such a claim failed a moment ago")
			require.Equal(t, 4, queryRow[int](t, look, countUsers, "bob"))
			require.Equal(t, 4, queryRow[int](t, look, "select count(*) from idempotency where state = 2 and fence = 1 and effect = 1 and status = 201"))
		})
	}
}

// refuse returns a handler that queues a statement behind that of queueBob.
func refuse(sql string, args ...any) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		must(pgstore.Queue(r.Context(), "insert into users (name) values ($1)", "bob"), pgstore.Queue(r.Context(), sql, args...))
		rw.WriteHeader(http.StatusCreated)
	}
}

// settled returns a handler that queues what queueBob does, and answers in another way.
func settled(status int, opts ...server.SettleOption) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		must(pgstore.Queue(r.Context(), "insert into users (name) values ($1)", "bob"), server.Settle(r.Context(), opts...))
		rw.WriteHeader(status)
		fmt.Fprint(rw, "status ", status)
	}
}

// The bound on the claim's wait for a lock is not that of the work, nor of whatever comes after it on the connection.
func TestOneCommit_lockTimeoutOfTheSession(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{}, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		cfg.ConnConfig.RuntimeParams["lock_timeout"] = "7s"
	})
	exec(t, look, "create table seen (lock_timeout text)")
	g, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	const note = "insert into seen select current_setting('lock_timeout')"
	queued := func(_ http.ResponseWriter, r *http.Request) { must(pgstore.Queue(r.Context(), note)) }
	require.Equal(t, http.StatusOK, postTo(routeOn(t, g, oneCommit, queued), "k").Code)
	sent := func(_ http.ResponseWriter, r *http.Request) {
		_, err := pgstore.Tx(r.Context()).Exec(r.Context(), note)
		must(err)
	}
	require.Equal(t, http.StatusOK, postTo(routeOn(t, g, server.Route{Effect: server.Transactional}, sent), "l").Code)
	require.Equal(t, "7s 7s", queryRow[string](t, look, "select string_agg(lock_timeout, ' ') from seen"))
}

// Whatever its handler does, a route with OneCommit is like any other to its callers, and leaves the same records.
func TestOneCommit_isLikeAnyRoute(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2000)
	databases := &stock{Stock: pgkittest.NewStock(t, migrateWithUsers, append(slices.Clone(tables), "users")...)}
	users := func(t *testing.T, cfg server.Config) (*server.Guard, *pgxpool.Pool) {
		look, _ := databases.lend(t)
		return usersOn(t, look, cfg), look
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		cfg     server.Config
		headers []string
	}{
		// The trouble of a server has a test of its own: then nothing is recorded.
		{name: "created", handler: queueBob},
		{name: "nothing queued", handler: func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "nothing") }},
		{name: "402", handler: settled(402)},
		{name: "404", handler: settled(404)},
		{name: "429", handler: settled(429)},
		{name: "500", handler: settled(500)},
		{name: "503", handler: settled(503)},
		{name: "500 that is final", handler: settled(500, server.Final())},
		{name: "rolled back", handler: settled(402, server.Rollback())},
		{name: "released", handler: settled(201, server.Release())},
		{name: "reference", handler: settled(201, server.Reference("bob"))},
		{name: "not retryable", handler: settled(500, server.NotRetryable())},
		{name: "too large", handler: func(rw http.ResponseWriter, r *http.Request) { queueBob(rw, r); fmt.Fprint(rw, long) }, cfg: server.Config{MaxResponseBytes: 1000}},
		{name: "violation", handler: refuse(insertAnn)},
		{name: "violation of the commit", handler: refuse(insertLate)},
		{name: "no such table", handler: refuse("insert into nowhere values ($1)", 1)},
		{name: "no number", handler: refuse("select $1::text::int", "x")},
		{name: "no argument", handler: refuse("insert into users (late) values ($1)", struct{}{})},
		{name: "conflicts", handler: refuse(raise("40001"))},
		{name: "a procedure", handler: refuse("do $$ begin insert into users (name) values ('carl'); end $$")},
		{name: "a procedure that commits", handler: refuse("do $$ begin commit; end $$")},
		{name: "sealed", handler: queueBob, cfg: server.Config{Codec: sealing(t)}},
		{name: "sent in time", handler: queueBob, headers: []string{wire.HeaderFirstSent, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)}},
		{name: "sent too long ago", handler: queueBob, headers: []string{wire.HeaderFirstSent, time.Now().Add(-30 * 24 * time.Hour).UTC().Format(time.RFC3339)}},
		{name: "sent in the future", handler: queueBob, headers: []string{wire.HeaderFirstSent, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ordinary := observed(t, users, server.Route{Effect: server.Transactional}, tt.handler, tt.cfg, tt.headers)
			require.Equal(t, ordinary, observed(t, users, oneCommit, tt.handler, tt.cfg, tt.headers))
		})
	}
}

// observed is what callers and operators see of a route, with and without an OnCommitError: a call, the same call
// again, another call with the key, and an undo. users makes the guard and the tables.
func observed(t *testing.T, users func(*testing.T, server.Config) (*server.Guard, *pgxpool.Pool), route server.Route, handler http.HandlerFunc, cfg server.Config, headers []string) (seen []string) {
	t.Helper()
	for _, answers := range []bool{false, true} {
		if answers {
			route.OnCommitError = func(_ context.Context, refused *store.TxError) (server.Response, error) {
				return server.Response{Status: http.StatusConflict, Body: []byte(refused.Constraint)}, nil
			}
		}
		g, look := users(t, cfg)
		route.Name = "add"
		h := routeOn(t, g, route, handler)
		undo := routeOn(t, g, route, func(rw http.ResponseWriter, r *http.Request) {
			fate, err := server.Barrier(r.Context())
			must(err, pgstore.Queue(r.Context(), "delete from users where name = $1", "bob"))
			fmt.Fprint(rw, fate)
		})
		note := func(what string, w *httptest.ResponseRecorder) {
			header := w.Header().Clone()
			header.Del("Date")
			seen = append(seen, fmt.Sprintf("%s: %d %v %s", what, w.Code, header, withoutInstance(w.Body.String())))
			seen = append(seen, fmt.Sprint(queryRow[int](t, look, "select count(*) from users"), " rows, ", queryRow[string](t, look,
				`select coalesce(string_agg(format('state %s fence %s status %s maybe %s deaths %s first-sent %s answer %s', state, fence, status, maybe_ran,
					recovery_attempts, first_sent is not null, envelope is not null), '; ' order by created_at), 'no record') from idempotency`)))
		}
		note("first", postTo(h, "k", headers...))
		note("again", postTo(h, "k", headers...))
		note("other", postTo(h, "k", append(headers, "Content-Type", "text/plain")...))
		note("undo", postTo(undo, "undo-k", wire.HeaderCancels, "k"))
		note("late", postTo(h, "k", headers...))
		note("bad key", postTo(h, "k k"))
	}
	return seen
}

// withoutInstance leaves out what differs between two databases.
func withoutInstance(body string) string {
	before, after, ok := strings.Cut(body, `"instance":"`)
	if !ok {
		return body
	}
	_, after, _ = strings.Cut(after, `"`)
	return before + after
}

func sealing(t *testing.T) *server.AESGCM {
	t.Helper()
	c, err := server.NewAESGCM(server.AESKey{ID: "k", Secret: make([]byte, server.AESKeyBytes)})
	require.NoError(t, err)
	return c
}

// If the server cannot make a queued write, the key is as if it was never used.
func TestOneCommit_troubleOfTheServer(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"53100", "57014", "55P03"} { // a full disk, a timeout, a lock that is not the key's
		g, look := users(t, server.Config{})
		var healthy atomic.Bool
		h := routeOn(t, g, oneCommit, func(rw http.ResponseWriter, r *http.Request) {
			if !healthy.Load() {
				must(pgstore.Queue(r.Context(), raise(code)))
			}
			queueBob(rw, r)
		})
		requireCode(t, postTo(h, "k"), wire.StoreUnavailable)
		require.Zero(t, queryRow[int](t, look, "select count(*) from idempotency"))
		healthy.Store(true)
		require.Equal(t, http.StatusCreated, postTo(h, "k").Code)
		require.Equal(t, 1, queryRow[int](t, look, countUsers, "bob"))
	}
}

// A handler that runs before the claim has no transaction, no fence and no time of a first claim to hand out.
func TestOneCommit_context(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	runs := 0
	var leaked context.Context
	h := routeOn(t, g, oneCommit, func(rw http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		leaked = ctx
		_, err := pgstore.Tx(ctx).Exec(ctx, "select 1")
		_, sqlErr := pgstore.SQLTx(ctx)
		hop, _ := childkey.FromContext(ctx)
		inbound, ok := wire.FromContext(ctx)
		key, _ := server.InboundKey(ctx)
		require.True(t, ok)
		require.Equal(t, "k", key.String())
		require.False(t, hop.IsZero())
		switch runs++; runs {
		case 1:
			require.ErrorIs(t, err, pgstore.ErrNoTx)
			require.ErrorIs(t, sqlErr, pgstore.ErrNoTx)
			require.Zero(t, server.Fence(ctx))
			require.True(t, inbound.FirstSent.IsZero())
			rw.WriteHeader(http.StatusInternalServerError)
		case 2, 4: // the guard does not know yet that there is a record
			require.ErrorIs(t, err, pgstore.ErrNoTx)
			queueBob(rw, r)
		case 3: // of a key that was released: like any other run
			require.NoError(t, errors.Join(err, sqlErr))
			require.EqualValues(t, 2, server.Fence(ctx))
			require.False(t, inbound.FirstSent.IsZero())
			queueBob(rw, r)
		}
	})
	require.Equal(t, http.StatusInternalServerError, postTo(h, "k").Code)
	require.ErrorIs(t, pgstore.Queue(leaked, "select 1"), pgstore.ErrTxEnded)
	require.Equal(t, http.StatusCreated, postTo(h, "k").Code)
	require.Equal(t, http.StatusCreated, postTo(h, "k").Code)
	require.Equal(t, []int{4, 1}, []int{runs, queryRow[int](t, look, countUsers, "bob")})
}

// A duplicate gets its answer, also if what its handler does with it by now would fail.
func TestOneCommit_duplicateOfAnotherVersion(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	require.Equal(t, http.StatusCreated, postTo(routeOn(t, g, oneCommit, queueBob), "k").Code)
	for name, handler := range map[string]http.HandlerFunc{
		"no table": func(_ http.ResponseWriter, r *http.Request) {
			must(pgstore.Queue(r.Context(), "insert into nowhere values ($1)", 1))
		},
		"violation": func(_ http.ResponseWriter, r *http.Request) { must(pgstore.Queue(r.Context(), insertAnn)) },
		"unsendable": func(_ http.ResponseWriter, r *http.Request) {
			must(pgstore.Queue(r.Context(), "insert into users (late) values ($1)", struct{}{}))
		},
		"500": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) },
		"429": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(429) },
		"402": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(402) },
	} {
		w := postTo(routeOn(t, g, oneCommit, handler), "k")
		require.Equal(t, []string{"201", "made", "true"}, []string{fmt.Sprint(w.Code), w.Body.String(), w.Header().Get(wire.HeaderReplayed)}, name)
	}
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from idempotency where fence = 1 and state = 2"))
}

// A panic goes on, and releases the key.
func TestOneCommit_panics(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	h := routeOn(t, g, oneCommit, func(rw http.ResponseWriter, r *http.Request) {
		queueBob(rw, r)
		panic("no")
	})
	require.PanicsWithValue(t, "no", func() { postTo(h, "k") })
	require.Equal(t, server.StateReleased, server.State(queryRow[int](t, look, "select state from idempotency")))
	require.Zero(t, queryRow[int](t, look, countUsers, "bob"))
	require.Equal(t, http.StatusCreated, postTo(routeOn(t, g, oneCommit, queueBob), "k").Code)
}

// The same calls come to two processes at once, many times each. Each key has one effect and one answer.
func TestOneCommit_duplicates(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	exec(t, look, "create table effect (what text)")
	testDuplicatesOfOneCommit(t, look)
}

func testDuplicatesOfOneCommit(t *testing.T, look *pgxpool.Pool) {
	t.Helper()
	const keys, processes, callers = 40, 2, 4
	var handlers []http.Handler
	for range processes {
		g, err := server.NewGuard(openOn(t, look, pgstore.Config{}), server.Unscoped, server.Config{})
		require.NoError(t, err)
		handlers = append(handlers, routeOn(t, g, oneCommit, func(rw http.ResponseWriter, r *http.Request) {
			must(pgstore.Queue(r.Context(), "insert into effect values ($1)", r.Header.Get(wire.HeaderKey)))
			fmt.Fprint(rw, random())
		}))
	}
	var wg sync.WaitGroup
	answers := make([][]string, keys)
	var mu sync.Mutex
	for n := range keys {
		for _, h := range handlers {
			for range callers {
				wg.Go(func() {
					w := postTo(h, fmt.Sprint("key-", n))
					mu.Lock()
					defer mu.Unlock()
					answers[n] = append(answers[n], fmt.Sprint(w.Code, w.Body))
				})
			}
		}
	}
	wg.Wait()
	for n, all := range answers {
		require.True(t, strings.HasPrefix(all[0], "200"), all[0])
		for _, a := range all {
			require.Equal(t, all[0], a, n)
		}
	}
	require.Equal(t, []int{keys, keys}, []int{queryRow[int](t, look, "select count(*) from effect"), queryRow[int](t, look, "select count(distinct what) from effect")})
}

// stalled is a route whose first write waits for a row that the test holds.
func stalled(t *testing.T, cfg server.Config) (one, other http.Handler, look *pgxpool.Pool, free func()) {
	t.Helper()
	g, look := users(t, cfg)
	second, err := server.NewGuard(openOn(t, look, pgstore.Config{}), server.Unscoped, cfg)
	require.NoError(t, err)
	handler := func(rw http.ResponseWriter, r *http.Request) {
		must(pgstore.Queue(r.Context(), "update users set late = late + 1 where name = $1", "ann"))
		queueBob(rw, r)
	}
	held, err := look.Begin(t.Context())
	require.NoError(t, err)
	_, err = held.Exec(t.Context(), "select from users where name = 'ann' for update")
	require.NoError(t, err)
	return routeOn(t, g, oneCommit, handler), routeOn(t, second, oneCommit, handler), look, func() {
		require.NoError(t, held.Rollback(context.WithoutCancel(t.Context())))
	}
}

func inFlight(h http.Handler, key string, headers ...string) <-chan *httptest.ResponseRecorder {
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() { done <- postTo(h, key, headers...) }()
	return done
}

func untilLocked(t *testing.T, look *pgxpool.Pool) {
	t.Helper()
	until(t, "the work waits for a row", func() bool { return waits(t, look, "transactionid") || waits(t, look, "tuple") })
}

// While a transaction is open, nobody can read the record. Duplicates wait for it in their own process, or for at most
// 500 ms in the database and then like any duplicate. A client that goes away changes nothing.
func TestOneCommit_whileItIsOpen(t *testing.T) {
	t.Parallel()
	one, other, look, free := stalled(t, server.Config{})
	first := inFlight(one, "k")
	untilLocked(t, look)
	for _, h := range []http.Handler{one, other} {
		began := time.Now()
		w := postTo(h, "k", wire.HeaderPrefer, "wait=0")
		requireCode(t, w, wire.InProgress)
		require.Less(t, time.Since(began), 4*store.MaxLockWait)
	}
	followers := []<-chan *httptest.ResponseRecorder{inFlight(one, "k", wire.HeaderPrefer, "wait=10"), inFlight(other, "k", wire.HeaderPrefer, "wait=10")}
	free()
	require.Equal(t, http.StatusCreated, (<-first).Code)
	for _, follower := range followers {
		w := <-follower
		require.Equal(t, []string{"201", "made", "true"}, []string{fmt.Sprint(w.Code), w.Body.String(), w.Header().Get(wire.HeaderReplayed)})
	}
	require.Equal(t, 1, queryRow[int](t, look, countUsers, "bob"))
}

// An undo that comes meanwhile never takes the forward call for one that never came. One that came before forbids it.
func TestOneCommit_undo(t *testing.T) {
	t.Parallel()
	one, _, look, free := stalled(t, server.Config{})
	undoer, err := server.NewGuard(openOn(t, look, pgstore.Config{LockTimeout: 200 * time.Millisecond}), server.Unscoped, server.Config{})
	require.NoError(t, err)
	undo := routeOn(t, undoer, oneCommit, func(rw http.ResponseWriter, r *http.Request) {
		fate, err := server.Barrier(r.Context())
		if err != nil {
			return
		}
		must(pgstore.Queue(r.Context(), "delete from users where name = $1", "bob"))
		fmt.Fprint(rw, fate)
	})
	first := inFlight(one, "k")
	untilLocked(t, look)
	w := postTo(undo, "undo-k", wire.HeaderCancels, "k")
	require.Contains(t, []string{string(wire.InProgress), string(wire.StoreUnavailable)}, w.Header().Get(wire.HeaderCode))
	require.Equal(t, "true", w.Header().Get(wire.HeaderShouldRetry))
	free()
	require.Equal(t, http.StatusCreated, (<-first).Code)
	require.Equal(t, "ran", postTo(undo, "undo-k", wire.HeaderCancels, "k").Body.String())
	require.Zero(t, queryRow[int](t, look, countUsers, "bob"))

	require.Equal(t, "never ran", postTo(undo, "undo-l", wire.HeaderCancels, "l").Body.String())
	requireCode(t, postTo(one, "l"), wire.KeyCancelled)
	require.Zero(t, queryRow[int](t, look, countUsers, "bob"))
}

// The server ends the session in the middle of the transaction: nothing is left, and the plan is sent again.
func TestOneCommit_killed(t *testing.T) {
	t.Parallel()
	one, _, look, free := stalled(t, server.Config{})
	first := inFlight(one, "k")
	untilLocked(t, look)
	killProcess(t.Context(), t, queryRow[int](t, look, "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"), look)
	free()
	require.Equal(t, http.StatusCreated, (<-first).Code)
	require.Equal(t, 1, queryRow[int](t, look, countUsers, "bob"))
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from idempotency where state = 2 and fence = 1"))
}

// A client that hangs up ends no transaction, and Shutdown waits for it.
func TestOneCommit_clientLeaves(t *testing.T) {
	t.Parallel()
	one, _, look, free := stalled(t, server.Config{})
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/users", strings.NewReader("{}"))
		r.Header.Set(wire.HeaderKey, "k")
		one.ServeHTTP(httptest.NewRecorder(), r)
	}()
	untilLocked(t, look)
	leave()
	free()
	<-done
	w := postTo(one, "k")
	require.Equal(t, []string{"201", "true"}, []string{fmt.Sprint(w.Code), w.Header().Get(wire.HeaderReplayed)})
	require.Equal(t, 1, queryRow[int](t, look, countUsers, "bob"))
}
