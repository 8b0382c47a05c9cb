package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

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

// Queued statements need no round trip of their own, and run in their order after the others.
func TestQueue(t *testing.T) {
	t.Parallel()
	queued := func(ctx context.Context, what ...string) error {
		for _, w := range what {
			if err := pgstore.Queue(ctx, "insert into step (key, what) values ($1, $2)", t.Name(), w); err != nil {
				return err
			}
		}
		return nil
	}
	for _, way := range []struct {
		name  string
		trips int64 // of the whole run, when everything is described
		want  []string
		do    func(ctx context.Context) error
	}{
		{"only queued", 2, []string{"a", "b"}, func(ctx context.Context) error { return queued(ctx, "a", "b") }},
		{"after others", 3, []string{"first", "a", "b"}, func(ctx context.Context) error {
			err := queued(ctx, "a")
			_, sent := pgstore.Tx(ctx).Exec(ctx, "insert into step (key, what) values ($1, 'first')", t.Name())
			return errors.Join(err, sent, queued(ctx, "b"))
		}},
		{"beside a savepoint", -1, []string{"a"}, func(ctx context.Context) error {
			savepoint, err := pgstore.Tx(ctx).Begin(ctx)
			if err != nil {
				return err
			}
			_, err = savepoint.Exec(ctx, "insert into step (key, what) values ($1, 'undone')", t.Name())
			return errors.Join(err, queued(ctx, "a"), savepoint.Rollback(ctx))
		}},
		{"with named arguments", -1, []string{"a"}, func(ctx context.Context) error {
			return pgstore.Queue(ctx, "insert into step (key, what) values (@key, @what)", pgx.NamedArgs{"key": t.Name(), "what": "a"})
		}},
		{"without arguments", 2, []string{"a"}, func(ctx context.Context) error {
			return pgstore.Queue(ctx, "/* a; /* nested */ */ -- commit\n insert into step (key, what) values ('k', 'a')")
		}},
	} {
		for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.Serializable} {
			t.Run(fmt.Sprint(way.name, " at ", level), func(t *testing.T) {
				t.Parallel()
				seen := new(trips)
				s, look := open(t, pgstore.Config{Isolation: level}, seen.watch)
				exec(t, look, "create table step (n serial, key text, what text)")
				g, err := server.NewGuard(s, server.Unscoped, server.Config{})
				require.NoError(t, err)
				var last int64
				for i := range 4 {
					exec(t, look, "truncate step")
					last = seen.count(func() {
						_, err := do(t, g, server.Transactional, fmt.Sprint("k", i), func(ctx context.Context) (int, error) { return 7, way.do(ctx) })
						require.NoError(t, err)
					})
					rows, err := look.Query(t.Context(), "select what from step order by n")
					require.NoError(t, err)
					got, err := pgx.CollectRows(rows, pgx.RowTo[string])
					require.NoError(t, err)
					require.Equal(t, way.want, got)
				}
				if way.trips > 0 {
					require.Equal(t, way.trips, last, "round trips of a run")
				}
				require.Equal(t, 4, queryRow[int](t, look, "select count(*) from idempotency where state = 2"))
			})
		}
	}
}

// A queued statement that fails leaves nothing, and is answered as a refused COMMIT. The handler has answered already.
func TestQueue_fails(t *testing.T) {
	t.Parallel()
	begun := func(ctx context.Context) error {
		_, err := pgstore.Tx(ctx).Exec(ctx, "insert into users (name) values ($1)", "bob")
		return err
	}
	for _, failure := range []struct {
		name, sql  string
		args       []any
		code       wire.Code // without OnCommitError
		constraint string    // "": it is no violation
	}{
		{"violation", insertAnn, nil, wire.TransactionFailed, "one_name"},
		{"violation at the commit", "insert into users values ($1, 1)", []any{"carl"}, wire.TransactionFailed, "one_late"},
		{"no such table", "insert into nowhere values ($1)", []any{1}, wire.TransactionFailed, ""},
		{"no SQL", "insort into users values ($1)", []any{1}, wire.TransactionFailed, ""},
		{"a number that is none", "select $1::text::int", []any{"x"}, wire.TransactionFailed, ""},
		{"an argument that cannot be sent", "insert into users (late) values ($1)", []any{struct{}{}}, wire.TransactionFailed, ""},
		{"two statements", insertBob + "; commit", nil, wire.TransactionFailed, ""},
		{"the server's trouble", raise("53100"), nil, wire.StoreUnavailable, ""},
	} {
		for name, before := range map[string]func(ctx context.Context) error{"alone": func(context.Context) error { return nil }, "after another": begun} {
			t.Run(failure.name+" "+name, func(t *testing.T) {
				t.Parallel()
				g, look := users(t, server.Config{})
				handler := func(rw http.ResponseWriter, r *http.Request) {
					ctx := r.Context()
					for _, err := range []error{before(ctx), pgstore.Queue(ctx, "insert into users (name) values ($1)", "dora"), pgstore.Queue(ctx, failure.sql, failure.args...)} {
						if err != nil {
							panic(err)
						}
					}
					rw.WriteHeader(http.StatusCreated)
				}
				rows := func() int { return queryRow[int](t, look, "select count(*) from users where name <> 'ann'") }
				plain := routeOn(t, g, server.Route{Effect: server.Transactional}, handler)
				for range 5 { // the statement has a name on each connection then, or none
					requireCode(t, postTo(plain, "plain"), failure.code)
				}
				require.Zero(t, rows())
				require.Equal(t, server.StateReleased, server.State(queryRow[int](t, look, "select state from idempotency")))
				require.False(t, queryRow[bool](t, look, "select maybe_ran from idempotency"))

				var constraint string
				answers := routeOn(t, g, server.Route{
					Effect: server.Transactional,
					OnCommitError: func(_ context.Context, refused *store.TxError) (server.Response, error) {
						constraint = refused.Constraint
						return server.Response{Status: http.StatusConflict}, nil
					},
				}, handler)
				w := postTo(answers, "answered")
				require.Equal(t, failure.constraint, constraint)
				require.Zero(t, rows())
				if failure.constraint == "" {
					requireCode(t, w, failure.code)
					return
				}
				require.Equal(t, http.StatusConflict, w.Code)
				again := postTo(answers, "answered")
				require.Equal(t, []string{"409", "true"}, []string{fmt.Sprint(again.Code), again.Header().Get(wire.HeaderReplayed)})
			})
		}
	}
}

// A conflict in a queued statement runs the handler again.
func TestQueue_conflict(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	runs := 0
	h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
		sql := insertBob
		if runs++; runs < 3 {
			sql = raise("40P01")
		}
		if err := pgstore.Queue(r.Context(), sql); err != nil {
			panic(err)
		}
		rw.WriteHeader(http.StatusCreated)
	})
	require.Equal(t, http.StatusCreated, postTo(h, "k").Code)
	require.Equal(t, []int{3, 1}, []int{runs, queryRow[int](t, look, countUsers, "bob")})
}

// A run that lost its key commits no queued statement.
func TestQueue_leaseLost(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	exec(t, look, "create table effect (what text)")
	o := claim(t, s)
	o.Token = random()
	tx, ctx := unbegun(t, s)
	require.NoError(t, pgstore.Queue(ctx, "insert into effect values ($1)", "lost"))
	require.ErrorIs(t, tx.Settle(t.Context(), o, completion), store.ErrLeaseLost)
	require.Zero(t, queryRow[int](t, look, "select count(*) from effect"))
}

// Without a partition for the answer the settlement is sent again, and queued statements are not.
func TestQueue_answerWithoutPartition(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned})
	exec(t, look, "create table effect (what text)")
	for n, first := range []bool{false, true} {
		require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
		for _, name := range partitionNames(t, look) {
			exec(t, look, "drop table "+name)
		}
		o := claim(t, s)
		tx, ctx := unbegun(t, s)
		if first {
			_, err := pgstore.Tx(ctx).Exec(ctx, "select 1")
			require.NoError(t, err)
		}
		require.NoError(t, pgstore.Queue(ctx, "insert into effect values ($1)", "kept"))
		require.NoError(t, tx.Settle(t.Context(), o, completion))
		require.Equal(t, completion.Answer, read(t, s, o.ID).Answer)
		require.Equal(t, n+1, queryRow[int](t, look, "select count(*) from effect"))
	}
}

func TestQueue_badInput(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, pgstore.Queue(t.Context(), "select 1"), pgstore.ErrNoTx)
	s, _ := open(t, pgstore.Config{})
	tx, ctx := unbegun(t, s)
	for _, sql := range []string{"", " ;", "-- nothing", "/* nothing", "/**/"} {
		require.ErrorIs(t, pgstore.Queue(ctx, sql), pgstore.ErrArgument, sql)
	}
	for _, sql := range []string{
		"commit", "COMMIT and chain", " end", "Rollback", "abort;", "begin", "start transaction", "prepare transaction 'x'",
		"-- why\ncommit", "/* why */ commit", "/* a /* b */ */;rollback to savepoint x",
	} {
		require.ErrorIs(t, pgstore.Queue(ctx, sql), pgstore.ErrTxOwned, sql)
	}
	for _, sql := range []string{"(select 1)", "with x as (select 1) select 1", "select'commit'", "ENDED"} {
		require.NoError(t, pgstore.Queue(ctx, sql), sql)
	}
	require.NoError(t, tx.Rollback(ctx))
	require.ErrorIs(t, pgstore.Queue(ctx, "select 1"), pgstore.ErrTxEnded)
}

// OnceFunc sends what its work has queued together with COMMIT.
func TestStore_OnceFunc_queued(t *testing.T) {
	t.Parallel()
	seen := new(trips)
	s, look := open(t, pgstore.Config{}, seen.watch)
	exec(t, look, "create table effect (what text constraint short check (length(what) < 5), late int constraint one_late unique deferrable initially deferred)")
	once := func(key, what string, late int) (first bool, err error) {
		return s.OnceFunc(t.Context(), invoice(t, key, "p"), func(ctx context.Context, _ pgx.Tx) error {
			return pgstore.Queue(ctx, "insert into effect values ($1, $2)", what, late)
		})
	}
	var last int64
	for i := range 4 {
		last = seen.count(func() {
			first, err := once(fmt.Sprint("k", i), "done", i)
			require.NoError(t, err)
			require.True(t, first)
		})
	}
	require.EqualValues(t, 2, last, "the key with BEGIN, the work with COMMIT")
	for name, violate := range map[string]func() (bool, error){
		"short":    func() (bool, error) { return once("failed", "too long", 9) },
		"one_late": func() (bool, error) { return once("failed", "late", 1) },
	} {
		first, err := violate()
		require.False(t, first)
		var refused *pgconn.PgError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, name, refused.ConstraintName)
		require.ErrorIs(t, err, pgstore.ErrTxFailed)
	}
	first, err := once("failed", "ok", 9)
	require.NoError(t, err)
	require.True(t, first, "nothing of the failures was left")
	require.Equal(t, 5, queryRow[int](t, look, "select count(*) from effect"))
}

// The bound on the settlement's wait for a lock is not that of the work, nor of whatever comes after it on the connection.
func TestQueue_lockTimeoutOfTheSession(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{}, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		cfg.ConnConfig.RuntimeParams["lock_timeout"] = "7s"
	})
	exec(t, look, "create table seen (lock_timeout text)")
	g, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	const note = "insert into seen select current_setting('lock_timeout')"
	for key, write := range map[string]func(context.Context) error{
		"queued": func(ctx context.Context) error { return pgstore.Queue(ctx, note) },
		"sent": func(ctx context.Context) error {
			_, err := pgstore.Tx(ctx).Exec(ctx, note)
			return err
		},
	} {
		h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) { must(write(r.Context())) })
		for n := range 2 { // also behind the settlement of a run before
			require.Equal(t, http.StatusOK, postTo(h, fmt.Sprint(key, n)).Code)
		}
	}
	require.Equal(t, "7s 7s 7s 7s", queryRow[string](t, look, "select string_agg(lock_timeout, ' ') from seen"))
}

// A client that hangs up in the middle of the last round trip ends no transaction.
func TestQueue_clientLeaves(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
		must(pgstore.Queue(r.Context(), "update users set late = late + 1 where name = $1", "ann"))
		queueBob(rw, r)
	})
	held, err := look.Begin(t.Context())
	require.NoError(t, err)
	_, err = held.Exec(t.Context(), "select from users where name = 'ann' for update")
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/users", strings.NewReader("{}"))
		r.Header.Set(wire.HeaderKey, "k")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}()
	until(t, "the work waits for a row", func() bool { return waits(t, look, "transactionid") || waits(t, look, "tuple") })
	leave()
	require.NoError(t, held.Rollback(t.Context()))
	<-ended
	w := postTo(h, "k")
	require.Equal(t, []string{"201", "true"}, []string{fmt.Sprint(w.Code), w.Header().Get(wire.HeaderReplayed)})
	require.Equal(t, 1, queryRow[int](t, look, countUsers, "bob"))
}

// A Transactional handler gets a request without a key in a transaction of its own, which leaves no record.
func TestTransactional_withoutAKey(t *testing.T) {
	t.Parallel()
	begin := func(ctx context.Context) error {
		_, err := pgstore.Tx(ctx).Exec(ctx, "insert into users (name) values ($1)", "bob")
		return err
	}
	queue := func(ctx context.Context) error {
		return pgstore.Queue(ctx, "insert into users (name) values ($1)", "carl")
	}
	late := func(ctx context.Context) error { return pgstore.Queue(ctx, "insert into users values ('dora', 1)") }
	nothing := func(context.Context) error { return nil }
	for _, tt := range []struct {
		name         string
		first, later func(context.Context) error
		status, want int
		rows         int
	}{
		{"unused", nothing, nothing, 201, 201, 0},
		{"begun", begin, nothing, 201, 201, 1},
		{"queued only", nothing, queue, 201, 201, 1},
		{"begun and queued", begin, queue, 201, 201, 2},
		{"refused", begin, queue, 409, 409, 0},
		{"refused, queued only", nothing, queue, 409, 409, 0},
		{"failed", begin, queue, 500, 500, 0},
		{"queued violation at the commit", nothing, late, 201, 500, 0},
		{"queued violation after a row", begin, late, 201, 500, 0},
		{"violation", begin, func(ctx context.Context) error {
			_, err := pgstore.Tx(ctx).Exec(ctx, insertLate)
			if err == nil {
				err = queue(ctx)
			}
			return err
		}, 201, 500, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, look := users(t, server.Config{})
			exec(t, look, "alter table users drop constraint one_name")
			h := routeOn(t, g, server.Route{Effect: server.Transactional, KeyOptional: true}, func(rw http.ResponseWriter, r *http.Request) {
				for _, do := range []func(context.Context) error{tt.first, tt.later} {
					if err := do(r.Context()); err != nil {
						panic(err)
					}
				}
				rw.WriteHeader(tt.status)
			})
			for n := range 3 { // the statements have names on the connection then
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/users", strings.NewReader("{}")))
				require.Equal(t, tt.want, w.Code, w.Body)
				require.Equal(t, tt.rows*(n+1), queryRow[int](t, look, "select count(*) from users where name <> 'ann'"))
			}
			require.Zero(t, queryRow[int](t, look, "select count(*) from idempotency"))
		})
	}
}

// Two requests without keys collide: one of them runs again, and both take effect.
func TestTransactional_withoutAKeyConflicts(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	exec(t, look, "create table account (cents int)")
	exec(t, look, "insert into account values (0)")
	g, err := server.NewGuard(openOn(t, look, pgstore.Config{Isolation: pgx.Serializable}), server.Unscoped, server.Config{})
	require.NoError(t, err)
	var runs atomic.Int64
	var both sync.WaitGroup
	both.Add(2)
	h := routeOn(t, g, server.Route{Effect: server.Transactional, KeyOptional: true}, func(_ http.ResponseWriter, r *http.Request) {
		var cents int
		if err := pgstore.Tx(r.Context()).QueryRow(r.Context(), "select cents from account").Scan(&cents); err != nil {
			return
		}
		if runs.Add(1) <= 2 {
			both.Done()
			both.Wait()
		}
		_, _ = pgstore.Tx(r.Context()).Exec(r.Context(), "update account set cents = $1", cents+1)
	})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
			assert.Equal(t, http.StatusOK, w.Code, w.Body)
		})
	}
	all.Wait()
	require.EqualValues(t, 3, runs.Load())
	require.Equal(t, 2, queryRow[int](t, look, "select cents from account"))
}

// A refusal is stored without the rows of its handler, however the handler wrote them, unless it keeps them.
func TestRefusal_rows(t *testing.T) {
	t.Parallel()
	insert := func(ctx context.Context) error {
		_, err := pgstore.Tx(ctx).Exec(ctx, "insert into users (name) values ('bob')")
		return err
	}
	queue := func(ctx context.Context) error {
		return pgstore.Queue(ctx, "insert into users (name) values ('carl')")
	}
	for _, tt := range []struct {
		name   string
		effect server.Effect
		write  []func(context.Context) error
	}{
		{"unused", server.Transactional, nil},
		{"begun", server.Transactional, []func(context.Context) error{insert}},
		{"queued only", server.Transactional, []func(context.Context) error{queue}},
		{"begun and queued", server.Transactional, []func(context.Context) error{insert, queue}},
		{"hook", server.Keyed, []func(context.Context) error{func(ctx context.Context) error { return store.OnComplete(ctx, insert) }}},
	} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, ", keep ", keep), func(t *testing.T) {
				t.Parallel()
				g, look := users(t, server.Config{})
				h := routeOn(t, g, server.Route{Effect: tt.effect}, func(rw http.ResponseWriter, r *http.Request) {
					for _, write := range tt.write {
						must(write(r.Context()))
					}
					if keep {
						must(server.Settle(r.Context(), server.KeepRows()))
					}
					http.Error(rw, "sold out", http.StatusConflict)
				})
				for _, replayed := range []string{"false", "true"} {
					w := postTo(h, "k")
					require.Equal(t, http.StatusConflict, w.Code)
					require.Equal(t, "sold out\n", w.Body.String())
					require.Equal(t, replayed, w.Header().Get(wire.HeaderReplayed))
				}
				want := 0
				if keep {
					want = len(tt.write)
				}
				require.Equal(t, want, queryRow[int](t, look, "select count(*) from users where name <> 'ann'"))
			})
		}
	}
}
