package server_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// down is a store that cannot be asked until it is up again.
func down(up *atomic.Bool, err error) *flaky {
	f := &flaky{TxStore: memstore.New()}
	f.claim = func(ctx context.Context, req server.ClaimRequest) (server.Record, bool, error) {
		if up.Load() {
			return f.TxStore.Claim(ctx, req)
		}
		return server.Record{}, false, err
	}
	return f
}

func TestFailOpen(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	var runs atomic.Int64
	events := new(witness)
	g := newGuard(t, down(&up, errDown), server.Config{Observer: events})
	h, err := g.Route(server.Route{Effect: server.Keyed, FailOpen: true}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		key, ok := childkey.FromContext(r.Context())
		require.True(t, ok)
		in, ok := wire.FromContext(r.Context())
		require.True(t, ok)
		require.Equal(t, !up.Load(), in.Rerun, "an earlier run may have made calls")
		if !up.Load() {
			require.ErrorIs(t, server.Final(r.Context()), server.ErrNoRun)
		}
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		_, _ = io.WriteString(w, key.String()+" "+string(body))
	}))
	require.NoError(t, err)

	for range 2 { // nothing deduplicates
		w := send(h, "k", "b")
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "k b", w.Body.String())
		require.Empty(t, w.Header().Values(wire.HeaderReplayed), "the key was not honoured")
	}
	require.EqualValues(t, 2, runs.Load())
	require.Equal(t, 2, events.count(server.EventFailedOpen))
	require.Equal(t, 2, events.count(server.EventStoreError))

	up.Store(true)
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, "k b", false)
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, "k b", true)
	requireCode(t, send(h, "k", "other"), wire.KeyReused)
}

// Failing closed is the default, and a verdict of the store is no failure.
func TestFailOpen_notByDefault(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		failOpen bool
		err      error
		want     wire.Code
	}{
		{"default", false, errDown, wire.StoreUnavailable},
		{"expired", true, server.ErrExpired, wire.KeyExpired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			g := newGuard(t, down(new(atomic.Bool), tt.err), server.Config{})
			h, err := g.Route(server.Route{Effect: server.Keyed, FailOpen: tt.failOpen}, answer(http.StatusOK, &runs))
			require.NoError(t, err)
			requireCode(t, send(h, "k", "b"), tt.want)
			require.Zero(t, runs.Load())
		})
	}
}

func TestFailOpen_notTransactional(t *testing.T) {
	t.Parallel()
	_, err := newGuard(t, memstore.New(), server.Config{}).Route(
		server.Route{Effect: server.Transactional, FailOpen: true}, http.NotFoundHandler())
	var rejected *server.ConfigError
	require.ErrorAs(t, err, &rejected)
	require.Equal(t, "Route.FailOpen", rejected.Field)
}
