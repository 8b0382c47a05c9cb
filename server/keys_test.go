package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func hopKey(tb testing.TB, scope, namespace, text string) childkey.Key {
	tb.Helper()
	hop, err := childkey.Hop(scope, namespace, key(tb, text))
	require.NoError(tb, err)
	return hop
}

// runKeys are the keys that a run sees in its ctx.
type runKeys struct{ parent, inbound, forward, inboundForward childkey.Key }

func keysOf(ctx context.Context) (k runKeys) {
	k.parent, _ = childkey.FromContext(ctx)
	k.inbound, _ = server.InboundKey(ctx)
	k.forward, _ = server.ForwardKey(ctx)
	k.inboundForward, _ = server.InboundForwardKey(ctx)
	return k
}

// scopedGuard is a guard whose requests name their scope in X-Scope.
func scopedGuard(t *testing.T, s store.Store, namespace string) *server.Guard {
	t.Helper()
	g, err := server.NewGuard(s, scopeByHeader, server.Config{Namespace: namespace})
	require.NoError(t, err)
	return g
}

// byRequest returns the keys of one request with the key k.
func byRequest(t *testing.T, g *server.Guard, effect server.Effect, scope string, headers ...string) (seen runKeys) {
	t.Helper()
	h := newRoute(t, g, effect, func(_ http.ResponseWriter, r *http.Request) { seen = keysOf(r.Context()) })
	requireAnswer(t, send(h, "k", "b", append(headers, "X-Scope", scope)...), http.StatusOK, "", false)
	return seen
}

// byTask returns the keys of one Do with the key k.
func byTask(t *testing.T, g *server.Guard, task server.Task) (seen runKeys) {
	t.Helper()
	_, _, err := server.Do(t.Context(), g, task, key(t, "k"), 0, func(ctx context.Context, _ int) (int, error) {
		seen = keysOf(ctx)
		return 0, nil
	})
	require.NoError(t, err)
	return seen
}

// byMessage returns the keys of the handling of one message, and the message's key.
func byMessage(t *testing.T, g *server.Guard, consumer string, m inbox.Message) (seen runKeys, raw childkey.Key) {
	t.Helper()
	b := newInbox(t, g, inbox.Config{Consumer: consumer, Effect: server.Keyed})
	delivery, err := b.Handle(t.Context(), m, func(ctx context.Context, _ []byte) error {
		seen = keysOf(ctx)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, inbox.Ran, delivery.Result)
	raw, err = b.Key(m)
	require.NoError(t, err)
	return seen, raw
}

// The parent key of a run's calls is the hop key, with the scope and the namespace of its record. The ctx also has
// the raw key.
func TestHopKey_inEveryKindOfRun(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			g := scopedGuard(t, memstore.New(), "orders")
			require.Equal(t, runKeys{parent: hopKey(t, "t1", "orders", "k"), inbound: key(t, "k")}, byRequest(t, g, effect, "t1"))
			task := server.Task{Name: "pay", Scope: "t2", Effect: effect}
			require.Equal(t, runKeys{parent: hopKey(t, "t2", "orders", "k"), inbound: key(t, "k")}, byTask(t, g, task))
		})
	}
	seen, raw := byMessage(t, newGuard(t, memstore.New(), server.Config{}), "mails", message)
	require.Equal(t, runKeys{parent: hopKey(t, "inbox", "inbox/mails", raw.String()), inbound: raw}, seen)
	seen, raw = byMessage(t, newGuard(t, memstore.New(), server.Config{Namespace: "orders"}), "mails", message)
	require.Equal(t, runKeys{parent: hopKey(t, "inbox", "orders:inbox/mails", raw.String()), inbound: raw}, seen)
}

// Two callers, two services over one store, or a request and a message can use the same key. No two of them share a
// parent key.
func TestHopKey_differsByScopeAndNamespace(t *testing.T) {
	t.Parallel()
	s, parents := memstore.New(), make(map[childkey.Key]string)
	note := func(who string, k runKeys) {
		require.Empty(t, parents[k.parent], who)
		parents[k.parent] = who
	}
	text := mustKey(t, s, message)
	for _, namespace := range []string{"", "orders", "inbox", "orders/inbox", "saga"} {
		g := scopedGuard(t, s, namespace)
		for _, scope := range []string{"t1", "t2", "inbox", "t1/orders"} {
			h := newRoute(t, g, server.Keyed, func(_ http.ResponseWriter, r *http.Request) { note(namespace+" "+scope, keysOf(r.Context())) })
			requireAnswer(t, send(h, text, "b", "X-Scope", scope), http.StatusOK, "", false)
		}
		for _, consumer := range []string{"mails", "inbox/mails", "orders"} {
			seen, _ := byMessage(t, g, consumer, message)
			note(namespace+" inbox of "+consumer, seen)
		}
	}
	require.Len(t, parents, 5*(4+3))
}

// mustKey is the key that the message has for the consumer mails.
func mustKey(t *testing.T, s store.Store, m inbox.Message) string {
	t.Helper()
	k, err := newInbox(t, newGuard(t, s, server.Config{}), inbox.Config{Consumer: "mails", Effect: server.Keyed}).Key(m)
	require.NoError(t, err)
	return k.String()
}

// An undo finds the rows and the calls of the forward run with ForwardKey: it is the
// parent key that the forward run had.
func TestForwardKey(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	g := scopedGuard(t, s, "orders")
	forward := byRequest(t, g, server.Keyed, "t1")
	require.Zero(t, forward.forward)
	require.Zero(t, forward.inboundForward)

	undo := func(scope string) (seen runKeys, fate server.Fate) {
		h := newRoute(t, g, server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
			seen = keysOf(r.Context())
			fate, _ = server.Barrier(r.Context())
		})
		requireAnswer(t, send(h, "undo-1", "u", wire.HeaderCancels, `"k"`, "X-Scope", scope), http.StatusOK, "", false)
		return seen, fate
	}
	seen, fate := undo("t1")
	require.Equal(t, server.Ran, fate)
	require.Equal(t, runKeys{
		parent: hopKey(t, "t1", "orders", "undo-1"), inbound: key(t, "undo-1"),
		forward: forward.parent, inboundForward: forward.inbound,
	}, seen)
	seen, fate = undo("t2")
	require.Equal(t, server.NeverRan, fate, "another caller's call of that key")
	require.NotEqual(t, forward.parent, seen.forward)

	first := byTask(t, g, server.Task{Name: "pay", Scope: "t3", Effect: server.Keyed})
	var task runKeys
	_, _, err := server.Do(t.Context(), g, server.Task{Name: "refund", Scope: "t3", Effect: server.Keyed, Cancels: key(t, "k")}, key(t, "undo-1"), 0,
		func(ctx context.Context, _ int) (int, error) { task = keysOf(ctx); return 0, nil })
	require.NoError(t, err)
	require.Equal(t, first.parent, task.forward)
	require.Equal(t, first.inbound, task.inboundForward)
}

func TestInboundKey_outsideARun(t *testing.T) {
	t.Parallel()
	require.Zero(t, keysOf(t.Context()))
	for _, effect := range []server.Effect{server.Keyed, server.Transactional} {
		h := keyless(t, memstore.New(), effect, func(_ http.ResponseWriter, r *http.Request) {
			require.Zero(t, keysOf(r.Context()))
			require.Zero(t, server.Fence(r.Context()))
			_, err := server.Barrier(r.Context())
			require.Error(t, err)
		})
		require.Equal(t, http.StatusOK, send(h, "", "b", wire.HeaderCancels, "k").Code)
	}
}

// keyless is a route that takes requests without a key.
func keyless(tb testing.TB, s store.Store, effect server.Effect, next http.HandlerFunc) http.Handler {
	tb.Helper()
	h, err := newGuard(tb, s, server.Config{}).Route(server.Route{Effect: effect, KeyOptional: true}, next)
	require.NoError(tb, err)
	return h
}

// A Transactional handler gets a request without a key in a transaction, which ends as that of a run.
func TestKeyless_transaction(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status int
		how    []server.SettleOption
		rows   int
	}{
		{"success", http.StatusCreated, nil, 1},
		{"refusal", http.StatusConflict, nil, 0},
		{"refusal that keeps its rows", http.StatusConflict, []server.SettleOption{server.KeepRows()}, 1},
		{"not stored", http.StatusTooManyRequests, nil, 0},
		{"failure", http.StatusBadGateway, nil, 0},
		{"Release", http.StatusOK, []server.SettleOption{server.Release()}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var rows ledger
			s := &flaky{TxStore: memstore.New()}
			h := keyless(t, s, server.Transactional, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				require.NoError(t, rows.write(r.Context()))
				require.NoError(t, server.Settle(r.Context(), tt.how...))
				w.Header().Set("X-Own", "1")
				w.WriteHeader(tt.status)
				fmt.Fprintf(w, "got %s", body)
			})
			for n := range 2 { // there is nothing to replay
				w := send(h, "", "b")
				require.Equal(t, tt.status, w.Code)
				require.Equal(t, "got b", w.Body.String())
				require.Equal(t, http.Header{"X-Own": {"1"}, "Content-Length": {"5"}, "Content-Type": {"text/plain; charset=utf-8"}}, w.Header())
				require.Equal(t, tt.rows*(n+1), rows.count())
			}
			require.Zero(t, s.asked.Load())
			w := send(h, "k", "b")
			require.Equal(t, tt.status, w.Code)
			require.Equal(t, "false", w.Header().Get(wire.HeaderReplayed))
			requireCode(t, send(h, "no key", "b"), wire.KeyInvalid)
		})
	}
}

func TestKeyless_transactionFails(t *testing.T) {
	t.Parallel()
	late := &store.TxError{SQLState: "23505", Commit: true}
	for _, tt := range []struct {
		name     string
		inside   []error // of the transactions, by a statement
		commits  []error // of the transactions, by the COMMIT
		status   int
		code     wire.Code
		retry    string
		runs     int
		answered bool // by OnCommitError
	}{
		{"conflict", []error{store.ErrConflict, store.ErrConflict}, nil, 201, "", "", 3, false},
		{"too many conflicts", []error{store.ErrConflict, store.ErrConflict, store.ErrConflict}, nil, 503, wire.StoreUnavailable, "true", 3, false},
		{"conflict at the commit", nil, []error{store.ErrConflict}, 201, "", "", 2, false},
		{"lost", []error{store.ErrTxLost}, nil, 201, "", "", 2, false},
		{"lost twice", []error{store.ErrTxLost, store.ErrTxLost}, nil, 503, wire.StoreUnavailable, "true", 2, false},
		{"refused statement", []error{errRefused}, nil, 500, wire.TransactionFailed, "false", 1, false},
		{"refused commit", nil, []error{late}, 500, wire.TransactionFailed, "false", 1, false},
		{"refused commit, answered", nil, []error{late}, 409, "", "", 1, true},
		{"trouble", []error{errDisk}, nil, 503, wire.StoreUnavailable, "true", 1, false},
		{"unknown fate", nil, []error{store.ErrFateUnknown}, 423, wire.OutcomeUnknown, "false", 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var rows ledger
			s, begun, runs := &flaky{TxStore: memstore.New()}, 0, 0
			s.begin = func(ctx context.Context) (store.Tx, error) {
				tx, err := s.TxStore.Begin(ctx)
				if begun++; begun <= len(tt.commits) {
					return failingTx{tx, tt.commits[begun-1]}, err
				}
				return tx, err
			}
			route := server.Route{Effect: server.Transactional, KeyOptional: true}
			if tt.answered {
				route.OnCommitError = onCommitError
			}
			h, err := newGuard(t, s, server.Config{}).Route(route, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				require.Equal(t, "b", string(body))
				require.NoError(t, rows.write(r.Context()))
				if runs <= len(tt.inside) {
					require.NoError(t, memstore.Tx(r.Context()).Fail(tt.inside[runs-1]))
				}
				w.WriteHeader(http.StatusCreated)
			}))
			require.NoError(t, err)
			w := send(h, "", "b")
			require.Equal(t, tt.status, w.Code)
			require.Equal(t, string(tt.code), w.Header().Get(wire.HeaderCode))
			require.Equal(t, tt.retry, w.Header().Get(wire.HeaderShouldRetry))
			require.Empty(t, w.Header().Get(wire.HeaderReplayed))
			require.NotContains(t, w.Body.String(), "same key")
			require.Equal(t, tt.runs, runs)
			if tt.status == http.StatusCreated {
				require.Equal(t, 1, rows.count())
			} else {
				require.Zero(t, rows.count())
			}
		})
	}
}

func TestKeyless_panics(t *testing.T) {
	t.Parallel()
	var rows ledger
	h := keyless(t, memstore.New(), server.Transactional, func(_ http.ResponseWriter, r *http.Request) {
		require.NoError(t, rows.write(r.Context()))
		panic("boom")
	})
	require.PanicsWithValue(t, "boom", func() { send(h, "", "b") })
	require.Zero(t, rows.count())
}

func TestKeyless_shutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memstore.New(), server.Config{})
		h, err := g.Route(server.Route{Effect: server.Transactional, KeyOptional: true}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			assert.ErrorIs(t, context.Cause(r.Context()), server.ErrShutdown)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		require.NoError(t, err)
		done := make(chan int, 1)
		go func() { done <- send(h, "", "b").Code }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), server.DefaultSettleTimeout+time.Second)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
		require.Equal(t, http.StatusServiceUnavailable, <-done)
		requireCode(t, send(h, "", "b"), wire.NotClaimed)
	})
}

// The options of an error have no run to settle where the request is not guarded.
func TestKeyless_statusErrorWithOptions(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Keyed, server.Transactional} {
		mux, g := http.NewServeMux(), newGuard(t, memstore.New(), server.Config{})
		refused := &server.StatusError{Status: http.StatusConflict, Settle: []server.SettleOption{server.Final()}}
		require.NoError(t, server.HandleRoute(mux, g, reserve, server.Route{Effect: effect, KeyOptional: true},
			func(context.Context, lines) (hold, error) { return hold{}, refused }))
		r := httptest.NewRequest(http.MethodPost, "/shelves/7/reservations", strings.NewReader("{}"))
		require.Equal(t, http.StatusConflict, serve(mux, r).Code)
	}
}

// Two services share a store, and each has a consumer of this name: each handles the
// message, and each finds its own record.
func TestInbox_namespace(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	for _, namespace := range []string{"", "orders", "invoices"} {
		b := newInbox(t, newGuard(t, s, server.Config{Namespace: namespace}), inbox.Config{Consumer: "mails", Effect: server.Keyed})
		_, err := b.Lookup(t.Context(), message)
		require.ErrorIs(t, err, server.ErrNotFound, "%q", namespace)
		for _, want := range []inbox.Result{inbox.Ran, inbox.Duplicate} {
			got, err := b.Handle(t.Context(), message, func(context.Context, []byte) error { return nil })
			require.NoError(t, err)
			require.Equal(t, want, got.Result, "%q", namespace)
		}
		l, err := b.Lookup(t.Context(), message)
		require.NoError(t, err)
		require.Equal(t, server.StateCompleted, l.State)
	}
}

// The longest namespace of a guard and the longest consumer still have hop keys.
func TestHopKey_longestNames(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("n", childkey.MaxNameBytes)
	seen, _ := byMessage(t, newGuard(t, memstore.New(), server.Config{Namespace: longest}), longest, message)
	require.False(t, seen.parent.IsZero())
	g := scopedGuard(t, memstore.New(), longest)
	require.False(t, byRequest(t, g, server.Keyed, strings.Repeat("s", childkey.MaxScopeBytes)).parent.IsZero())
}
