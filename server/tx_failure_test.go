package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

var (
	errRefused       = &store.TxError{SQLState: "23505", Constraint: "one_name", Err: errors.New("ann is taken")}
	errCommitRefused = &store.TxError{SQLState: "23505", Constraint: "one_name", Commit: true, Err: errors.New("ann is taken")}
	errDisk          = errors.New("disk full")
)

// A function's caller gets the same error for a failed transaction as a handler's caller.
func TestDo_transactionFails(t *testing.T) {
	t.Parallel()
	verdict := &server.StatusError{Status: http.StatusConflict, Code: "name-taken"}
	keeping := &server.StatusError{Status: http.StatusConflict, Settle: []server.SettleOption{server.KeepRows()}}
	for _, tt := range []struct {
		name    string
		failure error
		returns error
		code    wire.Code // of the error; "": the function's own error
		runs    int       // after two calls
	}{
		{"refused, and no error", errRefused, nil, wire.TransactionFailed, 2},
		{"refused, and a verdict", errRefused, verdict, "", 1},
		{"refused, and another error", errRefused, errDisk, "", 2},
		{"COMMIT refused", errCommitRefused, nil, wire.TransactionFailed, 2},
		{"COMMIT refused under a verdict, which sends none", errCommitRefused, verdict, "", 1},
		{"refused, and a verdict that keeps its rows", errRefused, keeping, wire.TransactionFailed, 2},
		{"COMMIT refused under a verdict that keeps its rows", errCommitRefused, keeping, wire.TransactionFailed, 2},
		{"lost", store.ErrTxLost, nil, wire.StoreUnavailable, 4},
		{"lost, and a verdict", store.ErrTxLost, verdict, wire.StoreUnavailable, 4},
		{"cut off, and no error", store.ErrTxAbandoned, nil, wire.TransactionFailed, 2},
		{"cut off, and a verdict, which may rest on nothing", store.ErrTxAbandoned, verdict, wire.TransactionFailed, 2},
		{"cut off, and another error", store.ErrTxAbandoned, errDisk, "", 2},
		{"trouble, and a verdict", errDisk, verdict, wire.StoreUnavailable, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var rows ledger
			runs := 0
			g := newGuard(t, memstore.New(), server.Config{})
			for range 2 {
				_, _, err := server.Do(t.Context(), g, payroll(server.Transactional), key(t, "k"), transfer{7}, func(ctx context.Context, _ transfer) (booking, error) {
					runs++
					require.NoError(t, rows.write(ctx))
					require.NoError(t, memstore.Tx(ctx).Fail(tt.failure))
					return booking{1}, tt.returns
				})
				if tt.code == "" {
					require.EqualError(t, err, tt.returns.Error())
					continue
				}
				require.ErrorIs(t, err, &server.RefusedError{Code: tt.code})
				require.ErrorIs(t, err, tt.failure)
				require.NotContains(t, err.Error(), "ann")
			}
			require.Equal(t, tt.runs, runs)
			require.Zero(t, rows.count())
		})
	}
}

// A transaction that is lost in its commit runs once more, too. The second loss is a death,
// and after MaxRecoveryAttempts of them the key is quarantined.
func TestTransactional_lostInTheCommit(t *testing.T) {
	t.Parallel()
	for _, losses := range []int{1, 2, 6} {
		s := &flaky{TxStore: memstore.New()}
		seen := &witness{}
		begun, runs := 0, 0
		s.begin = func(ctx context.Context) (store.Tx, error) {
			tx, err := s.TxStore.Begin(ctx)
			if begun++; begun <= losses {
				return failingTx{tx, store.ErrTxLost}, err
			}
			return tx, err
		}
		h := newRoute(t, newGuard(t, s, server.Config{MaxRecoveryAttempts: 1, Observer: seen}), server.Transactional, func(w http.ResponseWriter, _ *http.Request) {
			runs++
			w.WriteHeader(http.StatusCreated)
		})
		w := send(h, "k", "b")
		switch losses {
		case 1:
			require.Equal(t, []int{http.StatusCreated, 2}, []int{w.Code, runs})
		case 2:
			requireCode(t, w, wire.StoreUnavailable)
			rec := readRecord(t, s, seen)
			require.LessOrEqual(t, rec.LeaseLeft(), time.Duration(0))
			require.Equal(t, []int{http.StatusCreated, 3}, []int{send(h, "k", "b").Code, runs})
		default:
			requireCode(t, w, wire.StoreUnavailable)
			requireCode(t, send(h, "k", "b"), wire.StoreUnavailable)
			requireCode(t, send(h, "k", "b"), wire.Poisoned)
			require.Equal(t, 4, runs)
		}
	}
}

// If a run's time is over when its transaction is lost, no other run begins.
func TestTransactional_lostAfterTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h := newRoute(t, newGuard(t, memstore.New(), server.Config{HandlerTimeout: time.Second}), server.Transactional, func(_ http.ResponseWriter, r *http.Request) {
			runs++
			<-r.Context().Done()
			require.NoError(t, memstore.Tx(r.Context()).Fail(store.ErrTxLost))
		})
		requireCutShort(t, send(h, "k", "b"))
		require.Equal(t, 1, runs)
	})
}

// requireCutShort checks the answer to a run whose ctx ended before it could do its work: a retry can help, and the store
// is not to blame.
func requireCutShort(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, []any{500, string(wire.TransactionFailed), "true", "1"},
		[]any{w.Code, w.Header().Get(wire.HeaderCode), w.Header().Get(wire.HeaderShouldRetry), w.Header().Get(wire.HeaderRetryAfter)})
	require.Contains(t, w.Body.String(), "time for this request was over")
}

// A ctx that ends is no error of the store, wherever it ends: before another attempt after a conflict, in the Barrier of
// an undo, or while a route finds out what became of a key.
func TestCtxEnds_theStoreIsNotToBlame(t *testing.T) {
	t.Parallel()
	ended := func(parent context.Context) context.Context {
		ctx, cancel := context.WithCancel(parent)
		cancel()
		return ctx
	}
	for _, tt := range []struct {
		name    string
		effect  server.Effect
		handler func(t *testing.T, w http.ResponseWriter, r *http.Request)
	}{
		{"before another attempt", server.Transactional, func(t *testing.T, _ http.ResponseWriter, r *http.Request) {
			require.NoError(t, memstore.Tx(r.Context()).Doom())
			<-r.Context().Done()
		}},
		{"in the Barrier, which the handler ignores", server.Transactional, func(t *testing.T, _ http.ResponseWriter, r *http.Request) {
			_, err := server.Barrier(ended(r.Context()))
			require.ErrorIs(t, err, context.Canceled)
		}},
		{"in the Barrier of a Keyed undo", server.Keyed, func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			_, err := server.Barrier(ended(r.Context()))
			require.ErrorIs(t, err, context.Canceled)
			w.WriteHeader(http.StatusConflict)
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			seen := &witness{}
			s := memstore.New()
			h := newRoute(t, newGuard(t, s, server.Config{Observer: seen, HandlerTimeout: time.Second}), tt.effect, func(w http.ResponseWriter, r *http.Request) { tt.handler(t, w, r) })
			requireCutShort(t, send(h, "k", "b", wire.HeaderCancels, "f"))
			require.Zero(t, seen.count(server.EventStoreError), tt.name)
			require.Equal(t, server.StateReleased, readRecord(t, s, seen).State, tt.name)
		})
	}
	t.Run("in a Reconcile", func(t *testing.T) {
		t.Parallel()
		seen := &witness{}
		_, h, _ := charges(t, memstore.New(), saying(server.StillUnknown(), context.DeadlineExceeded), server.Config{Observer: seen})
		require.Equal(t, http.StatusInternalServerError, send(h, "k", "b").Code)
		requireUndecided(t, send(h, "k", "b"), server.DefaultHandlerTimeout)
		require.ErrorIs(t, seen.all(server.EventReconcile)[0].Err, context.DeadlineExceeded)
		require.Zero(t, seen.count(server.EventStoreError))
	})
	t.Run("of who looks a key up", func(t *testing.T) {
		t.Parallel()
		g := newGuard(t, memstore.New(), server.Config{})
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(wire.HeaderKey, "k")
		w := httptest.NewRecorder()
		g.LookupHandler().ServeHTTP(w, r.WithContext(ended(r.Context())))
		requireCode(t, w, wire.NotClaimed)
	})
}

// A shutdown that cuts a handler's statement off is told as a shutdown, and is no failed attempt.
func TestShutdown_cutsAStatementOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &witness{}
		s := memstore.New()
		g := newGuard(t, s, server.Config{Observer: seen})
		running := make(chan struct{})
		h := newRoute(t, g, server.Transactional, func(_ http.ResponseWriter, r *http.Request) {
			close(running)
			<-r.Context().Done()
			require.NoError(t, memstore.Tx(r.Context()).Fail(store.ErrTxAbandoned))
		})
		answer := make(chan *httptest.ResponseRecorder, 1)
		go func() { answer <- send(h, "k", "b") }()
		<-running
		ctx, cancel := context.WithTimeout(t.Context(), server.DefaultSettleTimeout+time.Second)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
		w := <-answer
		requireCode(t, w, wire.StoreUnavailable)
		require.Contains(t, w.Body.String(), "shutting down")
		rec := readRecord(t, s, seen)
		require.Equal(t, []any{server.StateReleased, 0}, []any{rec.State, rec.FailedAttempts})
	})
}

// An undo whose forward call is running gets in-progress, even if its own transaction fails.
func TestBarrier_inAFailedTransaction(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	g := newGuard(t, s, server.Config{Wait: -1})
	running, done := make(chan struct{}), make(chan struct{})
	forward := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {
		close(running)
		<-done
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		send(forward, "f", "b")
	}()
	<-running
	undo := newRoute(t, g, server.Transactional, func(_ http.ResponseWriter, r *http.Request) {
		_, err := server.Barrier(r.Context())
		require.ErrorIs(t, err, server.ErrForwardInProgress)
		require.NoError(t, memstore.Tx(r.Context()).Fail(errDisk))
	})
	requireCode(t, send(undo, "u", "b", wire.HeaderCancels, "f"), wire.InProgress)
	close(done)
	<-ended
}

// After an error of the store a completion hook is repeated like a settlement, for SettleTimeout, and the claim
// stays. A refused statement is the hook's failure.
func TestOnComplete_storeFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		failure error
		swallow bool
		again   bool
		state   server.State
	}{
		{"trouble", errDisk, false, true, server.StateInProgress},
		{"trouble, swallowed", errDisk, true, true, server.StateInProgress},
		{"lost", store.ErrTxLost, false, true, server.StateInProgress},
		{"refused", errRefused, false, false, server.StateReleased},
		{"refused, swallowed", errRefused, true, false, server.StateReleased},
		{"given up by the hook", store.ErrTxAbandoned, false, false, server.StateReleased},
		{"given up by the hook, swallowed", store.ErrTxAbandoned, true, false, server.StateReleased},
		{"COMMIT refused", errCommitRefused, true, false, server.StateReleased},
	} {
		synctest.Test(t, func(t *testing.T) {
			seen := &witness{}
			s := memstore.New()
			hooks := 0
			h := newRoute(t, newGuard(t, s, server.Config{Observer: seen}), server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
				require.NoError(t, store.OnComplete(r.Context(), func(ctx context.Context) error {
					hooks++
					err := memstore.Tx(ctx).Fail(tt.failure)
					if err == nil && !tt.swallow {
						err = tt.failure
					}
					return err
				}))
			})
			w := send(h, "k", "b")
			require.Equal(t, tt.again, hooks > 1, tt.name)
			require.Equal(t, tt.state, readRecord(t, s, seen).State, tt.name)
			switch {
			case tt.again:
				requireCode(t, w, wire.StoreUnavailable)
			case errors.Is(tt.failure, store.ErrTxAbandoned):
				require.Equal(t, []string{string(wire.TransactionFailed), "true"}, []string{w.Header().Get(wire.HeaderCode), w.Header().Get(wire.HeaderShouldRetry)})
			default:
				requireCode(t, w, wire.TransactionFailed)
			}
		})
	}
}
