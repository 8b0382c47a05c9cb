package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// callMark is the key of a value in a request's ctx.
type callMark struct{}

// marks counts the events without the request's value in their ctx.
type marks struct {
	witness
	without int
}

func (m *marks) Observe(ctx context.Context, e server.Event) {
	m.witness.Observe(ctx, e)
	if ctx.Value(callMark{}) != "this call" {
		m.without++
	}
}

// Each event of a call has the values of the call's ctx.
func TestObserver_ctx(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			var seen marks
			h := newRoute(t, newGuard(t, memstore.New(), server.Config{Observer: &seen}), effect, func(http.ResponseWriter, *http.Request) {})
			for range 2 {
				r := ordered("k", "tea")
				serve(h, r.WithContext(context.WithValue(r.Context(), callMark{}, "this call")))
			}
			require.Equal(t, 1, seen.count(server.EventSettled))
			require.Equal(t, 1, seen.count(server.EventHit))
			require.Zero(t, seen.without)
		})
	}
}

// A run that failed is observed once, and a run that only asks for a retry did not fail.
func TestObserver_failed(t *testing.T) {
	t.Parallel()
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	tests := []struct {
		name   string
		effect server.Effect
		next   http.HandlerFunc
		want   int
	}{
		{"stored", server.Keyed, answer(http.StatusOK), 0},
		{"refused", server.Transactional, answer(http.StatusConflict), 0},
		{"try later", server.Keyed, answer(http.StatusTooManyRequests), 0},
		{"asks for another run", server.Keyed, func(w http.ResponseWriter, r *http.Request) {
			_ = server.Settle(r.Context(), server.Release())
			w.WriteHeader(http.StatusInternalServerError)
		}, 0},
		{"5xx", server.Transactional, answer(http.StatusBadGateway), 1},
		{"5xx, keyed", server.Keyed, answer(http.StatusBadGateway), 1},
		{"5xx, opaque", server.Opaque, answer(http.StatusBadGateway), 1},
		{"panic", server.Transactional, func(http.ResponseWriter, *http.Request) { panic("tea") }, 1},
		{"panic, keyed", server.Keyed, func(http.ResponseWriter, *http.Request) { panic("tea") }, 1},
		{"hook", server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
			_ = store.OnComplete(r.Context(), func(context.Context) error { return errors.New("no tea") })
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var seen witness
			h, err := newGuard(t, memstore.New(), server.Config{Observer: &seen}).
				Route(server.Route{Name: "order", Effect: tt.effect}, tt.next)
			require.NoError(t, err)
			func() {
				defer func() { _ = recover() }()
				send(h, "k", "tea")
			}()
			failed := seen.all(server.EventFailed)
			require.Len(t, failed, tt.want)
			for _, e := range failed {
				require.Equal(t, "order", e.Route)
				require.Equal(t, seen.id(), e.ID)
			}
		})
	}
}

// The event says why an answer could not be recorded.
func TestObserver_failedToRecord(t *testing.T) {
	t.Parallel()
	var seen witness
	under := &flaky{TxStore: memstore.New()}
	under.settle = func(context.Context, store.Owner, store.Settlement) error { return store.ErrLeaseLost }
	h := newRoute(t, newGuard(t, under, server.Config{Observer: &seen}), server.Keyed, func(http.ResponseWriter, *http.Request) {})
	send(h, "k", "tea")
	failed := seen.all(server.EventFailed)
	require.Len(t, failed, 1)
	require.ErrorIs(t, failed[0].Err, store.ErrLeaseLost)
}
