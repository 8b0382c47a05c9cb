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

// The first claim's time counts for every later one, also for a retry that does
// not say it again: inside the window that runs, past it it does not.
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

		time.Sleep(server.DefaultRetention + time.Minute)
		requireCode(t, send(h, "late", "b"), wire.KeyExpired)
		require.Equal(t, 3, runs)
	})
}
