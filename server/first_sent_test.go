package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
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

		time.Sleep(server.DefaultRetention + time.Minute)
		requireCode(t, send(h, "late", "b"), wire.KeyExpired)
		require.Equal(t, 3, runs)
	})
}

// A UUIDv7 holds the time at which it was made. The service chooses whether that time counts.
func TestFirstSent_fromTheKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		fromKey  bool
		key      string
		headers  []string
		wantCode wire.Code // "": it runs
	}{
		{"young", true, v7(-time.Hour), nil, ""},
		{"old", true, v7(-25 * time.Hour), nil, wire.KeyExpired},
		{"old, the header wins", true, v7(-25 * time.Hour), []string{wire.HeaderFirstSent, wire.FormatFirstSent(time.Now())}, ""},
		{"future", true, v7(time.Hour), nil, wire.FirstSentInvalid},
		{"old, without the option", false, v7(-25 * time.Hour), nil, ""},
		{"old, without hyphens: perhaps a child key", true, strings.ReplaceAll(v7(-25*time.Hour), "-", ""), nil, ""},
		{"UUIDv4", true, "00000000-0000-4000-8000-000000000000", nil, ""},
		{"bad header", true, v7(-time.Hour), []string{wire.HeaderFirstSent, "now"}, wire.FirstSentInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			g := newGuard(t, memstore.New(), server.Config{FirstSentFromKey: tt.fromKey})
			w := send(newRoute(t, g, server.Keyed, answer(http.StatusOK, &runs)), tt.key, "b", tt.headers...)
			if tt.wantCode != "" {
				requireCode(t, w, tt.wantCode)
				require.Zero(t, runs.Load())
				return
			}
			requireAnswer(t, w, http.StatusOK, firstAnswer, false)
		})
	}
}

// v7 returns a UUIDv7 made age from now.
func v7(age time.Duration) string {
	ms := time.Now().Add(age).UnixMilli()
	return fmt.Sprintf("%08x-%04x-7000-8000-000000000000", ms>>16, ms&0xffff)
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
