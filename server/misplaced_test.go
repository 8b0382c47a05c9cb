package server_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// compress is a middleware that compresses for those who ask.
func compress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		next.ServeHTTP(encoded{w, z}, r)
	})
}

// An encoded answer is written through its compressor.
type encoded struct {
	http.ResponseWriter
	to io.Writer
}

func (e encoded) Write(b []byte) (int, error) { return e.to.Write(b) }

// allow is a middleware that lets scripts of one origin read.
func allow(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://shop.example")
		next.ServeHTTP(w, r)
	})
}

// Middleware on the wrong side of the guard is logged once for each route, and not at all on the right side.
func TestMisplaced_warnsOnce(t *testing.T) {
	t.Parallel()
	work := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "done") })
	for _, tt := range []struct {
		name, warning string
		around        func(g *server.Guard) http.Handler
	}{
		{"compress inside", "compresses be outside", func(g *server.Guard) http.Handler { return mustHandler(t, g, compress(work)) }},
		{"CORS inside", "CORS: let the middleware", func(g *server.Guard) http.Handler { return mustHandler(t, g, allow(work)) }},
		{"http.TimeoutHandler inside", "http.TimeoutHandler is inside", func(g *server.Guard) http.Handler {
			return mustHandler(t, g, allowNothing(http.TimeoutHandler(work, time.Minute, "")))
		}},
		{"http.TimeoutHandler outside", "", func(g *server.Guard) http.Handler {
			return http.TimeoutHandler(mustHandler(t, g, work), time.Minute, "")
		}},
		{"recovery inside", "let a middleware that recovers", func(g *server.Guard) http.Handler {
			return mustHandler(t, g, answerTwice(work))
		}},
		{"both outside", "", func(g *server.Guard) http.Handler { return compress(allow(mustHandler(t, g, work))) }},
	} {
		var log journal
		g := newGuard(t, memstore.New(), server.Config{Logger: log.logger(slog.LevelWarn)})
		h := tt.around(g)
		for i := range 3 {
			r := request(fmt.Sprint("k", i))
			r.Header.Set("Accept-Encoding", "gzip")
			require.Equal(t, http.StatusOK, serve(h, r).Code)
		}
		if tt.warning == "" {
			require.Empty(t, log.lines(t, "of the guard"), tt.name)
			continue
		}
		require.Len(t, log.lines(t, tt.warning), 1, tt.name)
	}
}

// answerTwice is what a middleware that recovers does to a handler that panicked in the middle of its answer.
func answerTwice(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		w.WriteHeader(http.StatusInternalServerError)
	})
}

// allowNothing is a middleware between others, with a writer of its own.
func allowNothing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(encoded{w, w}, r) })
}

// An http.TimeoutHandler that some requests do not reach is noticed when it gives a handler up. The handler goes on: its
// ctx has ended, what needs the run is refused, and the retry is a second run.
func TestMisplaced_timeoutHandler(t *testing.T) {
	t.Parallel()
	var log journal
	g := newGuard(t, memstore.New(), server.Config{Logger: log.logger(slog.LevelWarn)})
	given, settled := make(chan struct{}), make(chan error)
	slow := http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		<-given
		settled <- server.Settle(r.Context(), server.Release())
	}), time.Millisecond, "too slow")
	h := mustHandler(t, g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			return
		}
		slow.ServeHTTP(w, r)
	}))
	require.Equal(t, http.StatusOK, serve(h, request("k")).Code)
	require.Empty(t, log.lines(t, "TimeoutHandler"))
	for range 2 {
		r := request("slow")
		r.URL.Path, r.RequestURI = "/slow", "/slow"
		w := serve(h, r)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "too slow", w.Body.String())
		require.Equal(t, "false", w.Header().Get("Idempotent-Replayed"))
	}
	require.Len(t, log.lines(t, "TimeoutHandler"), 1)
	close(given)
	for range 2 { // both runs were there at once
		require.ErrorIs(t, <-settled, server.ErrNoRun)
	}
}

// A replay has the encoding that its client asks for, whatever the first one asked for.
func TestReplay_encoding(t *testing.T) {
	t.Parallel()
	work := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "done") })
	for _, tt := range []struct {
		accept  []string
		encoded bool
	}{
		{nil, false},
		{[]string{"identity"}, false},
		{[]string{"gzip;q=0"}, false},
		{[]string{"br, GZIP ; q=0.000, *;q=0"}, false},
		{[]string{"gzip"}, true},
		{[]string{"br", "gzip;q=0.5"}, true},
		{[]string{"*"}, true},
	} {
		h := mustHandler(t, newGuard(t, memstore.New(), server.Config{}), compress(work))
		first := request("k")
		first.Header.Set("Accept-Encoding", "gzip")
		require.Equal(t, "gzip", serve(h, first).Header().Get("Content-Encoding"))
		again := request("k")
		again.Header["Accept-Encoding"] = tt.accept
		w := serve(h, again)
		require.Equal(t, "true", w.Header().Get("Idempotent-Replayed"))
		require.Equal(t, fmt.Sprint(w.Body.Len()), w.Header().Get("Content-Length"))
		if !tt.encoded {
			require.Equal(t, "done", w.Body.String(), tt.accept)
			require.Empty(t, w.Header().Get("Content-Encoding"), tt.accept)
			continue
		}
		require.Equal(t, "gzip", w.Header().Get("Content-Encoding"), tt.accept)
		z, err := gzip.NewReader(w.Body)
		require.NoError(t, err)
		plain, err := io.ReadAll(z)
		require.NoError(t, err)
		require.Equal(t, "done", string(plain))
	}
}

// A layer around the guard may announce its encoding before it calls the guard, as gin's gzip and gorilla's CompressHandler
// do. Each answer has the encoding that this layer gives it, whatever it gave the first one.
func TestReplay_encodingOfALayerAround(t *testing.T) {
	t.Parallel()
	work := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		require.Empty(t, w.Header().Get("Content-Encoding"), "it is not the handler's")
		w.Header().Del("Content-Encoding") // as http.Error does
		fmt.Fprint(w, "done")
	})
	for _, accepts := range [][]string{{"gzip", "", "gzip"}, {"", "gzip", ""}} {
		h := compress(mustHandler(t, newGuard(t, memstore.New(), server.Config{}), work))
		for i, accept := range accepts {
			r := request("k")
			r.Header.Set("Accept-Encoding", accept)
			w := serve(h, r)
			require.Equal(t, fmt.Sprint(i > 0), w.Header().Get("Idempotent-Replayed"))
			require.Equal(t, accept, w.Header().Get("Content-Encoding"))
			require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
			body := io.Reader(w.Body)
			if accept == "gzip" {
				var err error
				body, err = gzip.NewReader(w.Body)
				require.NoError(t, err)
			}
			text, err := io.ReadAll(body)
			require.NoError(t, err)
			require.Equal(t, "done", string(text))
		}
	}
}

// A body that says gzip and is none, or that would become too long, stays as it is.
func TestReplay_encodingThatStays(t *testing.T) {
	t.Parallel()
	var long bytes.Buffer
	z := gzip.NewWriter(&long)
	_, err := z.Write(make([]byte, 1<<26))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for _, body := range []string{"no gzip", long.String(), long.String()[:long.Len()/2]} {
		g := newGuard(t, memstore.New(), server.Config{MaxResponseBytes: 1 << 16})
		h := mustHandler(t, g, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, body)
		}))
		for range 2 {
			w := serve(h, request("k"))
			require.Equal(t, body, w.Body.String())
			require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
		}
	}
}

func mustHandler(t *testing.T, g *server.Guard, next http.Handler) http.Handler {
	t.Helper()
	h, err := g.Handler(server.Keyed, next)
	require.NoError(t, err)
	return h
}

func request(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", key)
	return r
}
