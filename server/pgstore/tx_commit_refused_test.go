package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

func insertsLate(rw http.ResponseWriter, r *http.Request) {
	if _, err := pgstore.Tx(r.Context()).Exec(r.Context(), insertLate); err != nil {
		panic(err)
	}
	rw.WriteHeader(http.StatusCreated)
}

// A deferred constraint refuses the COMMIT, when the handler has answered already.
func TestTransactional_commitRefused(t *testing.T) {
	t.Parallel()
	var text logOutput
	g, look := users(t, server.Config{Logger: slog.New(slog.NewJSONHandler(&text, nil))})
	h := routeOn(t, g, server.Route{Effect: server.Transactional}, insertsLate)
	requireCode(t, postTo(h, "k"), wire.TransactionFailed)
	require.Equal(t, server.StateReleased, server.State(queryRow[int](t, look, "select state from idempotency")))
	require.False(t, queryRow[bool](t, look, "select maybe_ran from idempotency"))
	require.Zero(t, queryRow[int](t, look, countUsers, "bob"))
	for _, part := range []string{`"level":"ERROR"`, `"sqlstate":"23505"`, `"constraint":"one_late"`, "OnCommitError"} {
		require.Contains(t, text.String(), part)
	}
	require.NotContains(t, text.String(), "(late)=(1)", "the value is in the server's detail")
}

// OnCommitError's answer is what every caller gets, and an undo is told that there is
// nothing to undo.
func TestRoute_OnCommitError(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	asked := 0
	h := routeOn(t, g, server.Route{
		Effect: server.Transactional,
		OnCommitError: func(ctx context.Context, refused *store.TxError) (server.Response, error) {
			asked++
			require.Equal(t, []string{"23505", "one_late"}, []string{refused.SQLState, refused.Constraint})
			_, err := pgstore.Tx(ctx).Exec(ctx, "select 1")
			require.ErrorIs(t, err, pgstore.ErrNoTx)
			require.ErrorIs(t, server.Settle(ctx, server.Final()), server.ErrNoRun)
			return server.Response{Status: http.StatusConflict, Header: http.Header{"content-type": {"text/plain"}}, Body: []byte("taken")}, nil
		},
	}, insertsLate)
	for _, replayed := range []string{"false", "true"} {
		w := postTo(h, "k")
		require.Equal(t, []string{"409", "taken", "text/plain", replayed, "false"},
			[]string{fmt.Sprint(w.Code), w.Body.String(), w.Header().Get("Content-Type"), w.Header().Get(wire.HeaderReplayed), w.Header().Get(wire.HeaderShouldRetry)})
	}
	require.Equal(t, 1, asked)
	require.Zero(t, queryRow[int](t, look, countUsers, "bob"))
	undo := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) {
		fate, err := server.Barrier(r.Context())
		require.NoError(t, err)
		require.Equal(t, server.NeverRan, fate)
	})
	require.Equal(t, http.StatusOK, postTo(undo, "u", wire.HeaderCancels, "k").Code)
}

// An answer of OnCommitError is stored only if it is a verdict.
func TestRoute_OnCommitErrorReturns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer server.Response
		err    error
		status int // 0: transaction-failed
	}{
		{"a StatusError", server.Response{}, &server.StatusError{Status: 409, Code: "name-taken"}, 409},
		{"a StatusError behind another", server.Response{}, fmt.Errorf("late: %w", &server.StatusError{Status: 422}), 422},
		{"another error", server.Response{}, errors.New("secret"), 0},
		{"nothing", server.Response{}, nil, 0},
		{"a success", server.Response{Status: 200}, nil, 0},
		{"a 5xx", server.Response{Status: 503}, nil, 0},
		{"a status that is never stored", server.Response{Status: 429}, nil, 0},
		{"a StatusError of 500", server.Response{}, &server.StatusError{Status: 500}, 0},
		{"no status of HTTP", server.Response{Status: 4040}, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var text logOutput
			g, _ := users(t, server.Config{Logger: slog.New(slog.NewJSONHandler(&text, nil))})
			h := routeOn(t, g, server.Route{
				Effect:        server.Transactional,
				OnCommitError: func(context.Context, *store.TxError) (server.Response, error) { return tt.answer, tt.err },
			}, insertsLate)
			w := postTo(h, "k")
			if tt.status == 0 {
				requireCode(t, w, wire.TransactionFailed)
				require.Contains(t, text.String(), "OnCommitError failed")
				return
			}
			require.Equal(t, tt.status, w.Code)
			require.Equal(t, "true", postTo(h, "k").Header().Get(wire.HeaderReplayed))
			require.Empty(t, text.String())
		})
	}
}

// A panic of OnCommitError goes on, and the key is not left behind.
func TestRoute_OnCommitErrorPanics(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	h := routeOn(t, g, server.Route{
		Effect:        server.Transactional,
		OnCommitError: func(context.Context, *store.TxError) (server.Response, error) { panic("boom") },
	}, insertsLate)
	require.PanicsWithValue(t, "boom", func() { postTo(h, "k") })
	require.Equal(t, server.StateReleased, server.State(queryRow[int](t, look, "select state from idempotency")))
}

// Only a violated constraint is a verdict on the data. Another refusal is the code's fault.
func TestRoute_OnCommitErrorOfAnotherClass(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	exec(t, look, `create function late() returns trigger language plpgsql as $$ begin raise exception 'x' using errcode = 'P0001'; end $$;
		create constraint trigger late after insert on users deferrable initially deferred for each row execute function late()`)
	h := routeOn(t, g, server.Route{
		Effect: server.Transactional,
		OnCommitError: func(context.Context, *store.TxError) (server.Response, error) {
			t.Error("asked")
			return server.Response{Status: 409}, nil
		},
	}, func(rw http.ResponseWriter, r *http.Request) {
		_, err := pgstore.Tx(r.Context()).Exec(r.Context(), insertBob)
		require.NoError(t, err)
	})
	requireCode(t, postTo(h, "k"), wire.TransactionFailed)
}

// An owner that was replaced while OnCommitError ran stores nothing.
func TestRoute_OnCommitErrorIsFenced(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	h := routeOn(t, g, server.Route{
		Effect: server.Transactional,
		OnCommitError: func(context.Context, *store.TxError) (server.Response, error) {
			exec(t, look, "update idempotency set fence = fence + 1, token = gen_random_uuid()") // taken over
			return server.Response{Status: 409}, nil
		},
	}, insertsLate)
	requireCode(t, postTo(h, "k"), wire.LeaseLost)
	require.Equal(t, server.StateInProgress, server.State(queryRow[int](t, look, "select state from idempotency")))
}

// The log names the refused statement, and no value of a row.
func TestTransactional_refusedStatementIsLogged(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{insertAnn, "insert into users values ('secret', 'secret')", raise("P0001")} {
		var text logOutput
		g, _ := users(t, server.Config{Logger: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) {
			_, err := pgstore.Tx(r.Context()).Exec(r.Context(), statement)
			require.Error(t, err)
		})
		requireCode(t, postTo(h, "k"), wire.TransactionFailed)
		require.Contains(t, text.String(), "level=ERROR")
		require.Contains(t, text.String(), "sqlstate=")
		require.Contains(t, text.String(), "advice=")
		require.NotContains(t, text.String(), "secret")
		require.NotContains(t, text.String(), "ann")
		require.Equal(t, 1, strings.Count(text.String(), "level=ERROR"))
	}
}

// A handler that makes its transaction read only leaves no room for the answer. The database is not away, and a retry
// would end in the same way.
func TestTransactional_readOnly(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"set transaction read only", "set local transaction_read_only = on"} {
		seen := new(lastOutcome)
		g, look := users(t, server.Config{Observer: seen})
		h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) {
			_, err := pgstore.Tx(r.Context()).Exec(r.Context(), sql)
			require.NoError(t, err)
		})
		requireCode(t, postTo(h, "k"), wire.TransactionFailed, sql)
		require.ErrorContains(t, seen.err(), "read only", sql)
		require.Equal(t, server.StateReleased, server.State(queryRow[int](t, look, "select state from idempotency")), sql)
	}
}
