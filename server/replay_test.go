package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func TestHandler_runsOnceAndReplays(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			h, _ := guarded(t, effect, answer(http.StatusCreated, &runs))
			requireAnswer(t, send(h, "k-1", "b"), http.StatusCreated, firstAnswer, false)
			again := send(h, `"k-1"`, "b") // the quoted form is the same key
			requireAnswer(t, again, http.StatusCreated, firstAnswer, true)
			require.Equal(t, "no-store", again.Header().Get("Cache-Control"))
			requireAnswer(t, send(h, "k-2", "b"), http.StatusCreated, `{"got":"b","run":2}`+"\n", false)
			require.EqualValues(t, 2, runs.Load())
		})
	}
}

// The status and the effect class decide whether a run is stored, released or left unknown.
func TestHandler_whatIsStored(t *testing.T) {
	t.Parallel()
	const (
		stored = iota
		released
		unknown
	)
	for _, tt := range []struct {
		status                       int
		transactional, keyed, opaque int
	}{
		{http.StatusOK, stored, stored, stored},
		{http.StatusSeeOther, stored, stored, stored},
		{http.StatusBadRequest, stored, stored, stored},
		{http.StatusPaymentRequired, stored, stored, stored},
		{http.StatusNotFound, stored, stored, stored},
		{http.StatusConflict, stored, stored, stored},
		{http.StatusUnauthorized, released, released, released},
		{http.StatusForbidden, released, released, released},
		{http.StatusProxyAuthRequired, released, released, released},
		{http.StatusRequestTimeout, released, released, released},
		{http.StatusMisdirectedRequest, released, released, released},
		{http.StatusLocked, released, released, released},
		{http.StatusTooEarly, released, released, released},
		{http.StatusTooManyRequests, released, released, released},
		{http.StatusInternalServerError, released, released, unknown},
		{http.StatusServiceUnavailable, released, released, unknown},
		{600, released, released, unknown},
	} {
		for effect, want := range map[server.Effect]int{
			server.Transactional: tt.transactional, server.Keyed: tt.keyed, server.Opaque: tt.opaque,
		} {
			var runs atomic.Int64
			h, _ := guarded(t, effect, answer(tt.status, &runs))
			first := send(h, "k", "b")
			requireAnswer(t, first, tt.status, firstAnswer, false)
			if tt.status >= 300 {
				shouldRetry := first.Header().Get(wire.HeaderShouldRetry)
				require.Equal(t, want == released, shouldRetry == "true", "%v %d: Should-Retry %q", effect, tt.status, shouldRetry)
			}
			again := send(h, "k", "b")
			switch want {
			case stored:
				requireAnswer(t, again, tt.status, firstAnswer, true)
			case released:
				requireAnswer(t, again, tt.status, `{"got":"b","run":2}`+"\n", false)
			default:
				requireCode(t, again, wire.OutcomeUnknown)
			}
		}
	}
}

func TestHandler_replaysExactly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"nothing written", func(http.ResponseWriter, *http.Request) {}},
		{"binary", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0, 0xff, '\r', '\n', 0xfe}) }},
		{"empty, with type", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/csv") }},
		{"no content", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/orders/7", http.StatusSeeOther) }},
		{"sniffed", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }},
		{"sniffing refused", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = w.Write([]byte("<html>"))
		}},
		{"compressed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte{0x1f, 0x8b, 0, 1, 2})
		}},
		{"header lines stay lines", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Link", `<a>; rel="x, y"`)
			w.Header().Add("Link", `<b>; rel="z"`)
			w.Header().Set("ETag", `"v1"`)
		}},
		{"wrong length announced", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "999")
			_, _ = w.Write([]byte("four"))
		}},
		{"large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat("x", 1<<20))) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, r *http.Request) {
				runs.Add(1)
				tt.handler(w, r)
			})
			srv := httptest.NewServer(h)
			defer srv.Close()
			first, again := post(t, srv, "k"), post(t, srv, "k")
			require.Equal(t, first.body, again.body)
			require.Equal(t, first.StatusCode, again.StatusCode)
			require.Equal(t, first.ContentLength, again.ContentLength)
			for _, name := range []string{"Content-Type", "Content-Encoding", "Link", "Location", "Etag"} {
				require.Equal(t, first.Header.Values(name), again.Header.Values(name), name)
			}
			require.Equal(t, "true", again.Header.Get(wire.HeaderReplayed))
			require.EqualValues(t, 1, runs.Load())
		})
	}
}

func TestHandler_neverReplaysWhatConcernsOneCaller(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"Set-Cookie", "Authorization", "X-Request-Id", "X-RateLimit-Remaining", "Server-Timing", "X-Custom"} {
			w.Header().Set(name, "canary")
		}
		w.WriteHeader(http.StatusCreated)
	})
	require.Equal(t, "canary", send(h, "k", "").Header().Get("Set-Cookie"), "the first caller gets everything")
	require.NotContains(t, headerText(send(h, "k", "")), "canary")

	s := memstore.New()
	g := newGuard(t, s, server.Config{ReplayHeaders: []string{"x-custom"}})
	more := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Custom", "wanted") })
	send(more, "k", "")
	require.Equal(t, "wanted", send(more, "k", "").Header().Get("X-Custom"))
}

func TestHandler_scopesNeverMeet(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	g, err := server.NewGuard(memstore.New(), func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }, server.Config{})
	require.NoError(t, err)
	h := newRoute(t, g, server.Keyed, answer(http.StatusOK, &runs))
	requireAnswer(t, send(h, "k", "b", "X-User", "ann"), http.StatusOK, firstAnswer, false)
	requireAnswer(t, send(h, "k", "b", "X-User", "bob"), http.StatusOK, `{"got":"b","run":2}`+"\n", false)
	requireAnswer(t, send(h, "k", "b", "X-User", "ann"), http.StatusOK, firstAnswer, true)
}

// A stored answer that was damaged is neither sent nor made again.
func TestHandler_unreadableAnswer(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	under := &flaky{TxStore: memstore.New()}
	h := newRoute(t, newGuard(t, under, server.Config{}), server.Keyed, answer(http.StatusOK, &runs))
	under.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
		s.Answer.Envelope = []byte("not an envelope")
		return under.TxStore.Settle(ctx, o, s)
	}
	send(h, "k", "b")
	requireCode(t, send(h, "k", "b"), wire.RecordUnreadable)
	require.EqualValues(t, 1, runs.Load())
}

// A layer around the guard sets its headers before each answer. The first answer has them already, and so does the
// stored answer.
func TestReplay_outerHeadersAreNotDoubled(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{ReplayHeaders: []string{"api-version", "X-Trace"}})
	h := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("X-Trace", "inner")
		w.Header().Add("Link", "<inner>")
	})
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "7")
		w.Header().Set("X-Trace", "outer")
		w.Header().Set("Link", "<outer>")
		w.Header().Set("X-Other", "outer")
		h.ServeHTTP(w, r)
	})
	for _, replayed := range []bool{false, true} {
		w := send(outer, "k", "b")
		requireAnswer(t, w, http.StatusOK, "", replayed)
		require.Equal(t, []string{"7"}, w.Header()["Api-Version"])
		require.Equal(t, []string{"outer", "inner"}, w.Header()["X-Trace"])
		require.Equal(t, []string{"<outer>", "<inner>"}, w.Header()["Link"])
		require.Equal(t, []string{"outer"}, w.Header()["X-Other"])
	}
}
