package server_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// An answer can be deleted earlier than its record: retries learn that the
// request was done, and its body cannot be read any more.
func TestBodyRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		g := newGuard(t, memstore.New(), server.Config{BodyRetention: time.Hour})
		h := newRoute(t, g, server.Keyed, answer(http.StatusCreated, &runs))
		send(h, "k", "b")
		time.Sleep(time.Hour - time.Second)
		requireAnswer(t, send(h, "k", "b"), http.StatusCreated, firstAnswer, true)
		time.Sleep(time.Second)
		requireCode(t, send(h, "k", "b"), wire.ResponseGone)
		requireCode(t, send(h, "k", "other"), wire.KeyReused)
		l, err := g.Lookup(t.Context(), "unscoped", key(t, "k"))
		require.NoError(t, err)
		require.Equal(t, server.Response{Status: http.StatusCreated}, l.Response)
		require.False(t, l.Replayable)

		time.Sleep(server.DefaultAuditRetention)
		_, err = g.Sweep(t.Context())
		require.NoError(t, err)
		send(h, "k", "b")
		require.EqualValues(t, 2, runs.Load(), "a swept key is new")
	})
}

func TestBodyRetention_rejects(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{-1, time.Second, server.DefaultRetention + 1} {
		_, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{BodyRetention: d})
		var rejected *server.ConfigError
		require.ErrorAs(t, err, &rejected, "%v", d)
		require.Equal(t, "Config.BodyRetention", rejected.Field)
	}
}
