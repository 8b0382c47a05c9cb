package server_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// The first-sent time of the first claim counts for every later claim, also for
// a retry without that header. Inside the window such a retry runs; past it the
// retry is refused.
func TestFirstSent_retryWithoutIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs, status := 0, http.StatusServiceUnavailable
		h := newRoute(t, newGuard(t, memstore.New(), server.Config{}), server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
			runs++
			w.WriteHeader(status)
		})
		firstSent := []string{wire.HeaderFirstSent, wire.FormatFirstSent(time.Now())}
		send(h, "k", "b", firstSent...)
		send(h, "late", "b", firstSent...)
		require.Equal(t, 2, runs)

		status = http.StatusCreated
		require.Equal(t, http.StatusCreated, send(h, "k", "b").Code)
		require.Equal(t, 3, runs, "released, and inside the window")

		time.Sleep(server.DefaultAuditRetention - server.DefaultSkew - time.Minute)
		require.Equal(t, http.StatusCreated, send(h, "new", "b", firstSent...).Code, "no record: nothing ran")
		require.Equal(t, 4, runs)

		time.Sleep(2 * time.Minute)
		requireCode(t, send(h, "newer", "b", firstSent...), wire.KeyExpired)
		requireCode(t, send(h, "late", "b"), wire.KeyExpired)
		require.Equal(t, 4, runs)
	})
}

// A late retry never runs again, although the record of the first run is gone.
func TestFirstSent_afterTheRecordIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		store := memstore.New()
		g := newGuard(t, store, server.Config{})
		h := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) { runs++ })
		firstSent := []string{wire.HeaderFirstSent, wire.FormatFirstSent(time.Now())}
		send(h, "k", "b", firstSent...)
		time.Sleep(server.DefaultAuditRetention + time.Hour)
		n, err := g.Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		stats, err := store.Stats(t.Context())
		require.NoError(t, err)
		require.Empty(t, stats.ByState)
		requireCode(t, send(h, "k", "b", firstSent...), wire.KeyExpired)
		require.Equal(t, 1, runs)
		send(h, "k", "b") // a request without a first-sent time runs
		require.Equal(t, 2, runs)
	})
}
