package examples_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A hop's owner loses its key to a peer, does not notice, and calls the next hop all the
// same, after the peer has. Both calls have one child key: the next hop has one effect.
func TestHops_zombieCallsTheNextHop(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	leaf := startHop(t, func(_ context.Context, in int) (int, error) {
		effects.Add(1)
		return in + 1, nil
	})
	call := calling(t, leaf)
	var ahead atomic.Int64 // of the store's clock: the owner's own alarm does not go off
	s, err := memstore.NewWith(memstore.Config{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	require.NoError(t, err)
	begun, wake := make(chan struct{}), make(chan struct{})
	late := make(chan error, 1)
	owner := startReplica(t, s, func(ctx context.Context, in int) (int, error) {
		close(begun)
		<-wake
		out, err := call(context.WithoutCancel(ctx), in)
		late <- err
		return out, err
	})
	peer := startReplica(t, s, call)

	ask := func(url string) error {
		client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"next": {URL: url}}})
		require.NoError(t, err)
		_, err = sdk.Call(childkey.NewContext(t.Context(), childkey.MustParse("order-42")), client, work, 1)
		return err
	}
	first := make(chan error, 1)
	go func() { first <- ask(owner) }()
	<-begun
	ahead.Store(int64(server.DefaultLease))
	require.NoError(t, ask(peer), "the lease is over")
	require.EqualValues(t, 1, effects.Load())
	close(wake)
	require.NoError(t, <-late, "the next hop answers the zombie as well")
	require.NoError(t, <-first, "the zombie's caller gets the peer's answer")
	require.EqualValues(t, 1, effects.Load(), "the next hop replayed")
	require.EqualValues(t, 2, leaf.hits.Load(), "both calls arrived")
}

// startReplica starts a process of a hop over a store that several share, and returns its URL.
func startReplica(t *testing.T, s store.Store, do func(context.Context, int) (int, error)) string {
	t.Helper()
	guard, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, work, server.Keyed, do))
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		srv.Close()
		require.NoError(t, guard.Shutdown(context.Background()))
	})
	return srv.URL
}
