package server_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// serveQuietly serves h over a real socket. It does not log the panics of net/http.
func serveQuietly(tb testing.TB, h http.Handler) *httptest.Server {
	tb.Helper()
	front := httptest.NewUnstartedServer(h)
	front.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	front.Start()
	tb.Cleanup(front.Close)
	return front
}

// postTo sends a request over a real socket.
func postTo(tb testing.TB, client *http.Client, target, key, body string, headers ...string) (*http.Response, string) {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, target, strings.NewReader(body))
	require.NoError(tb, err)
	r.Header.Set(wire.HeaderKey, key)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(r)
	require.NoError(tb, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(tb, err)
	return resp, string(got)
}

// By default a Flush changes nothing: the effect is made once, and its answer
// is complete and replayed.
func TestStream_flushIsIgnored(t *testing.T) {
	t.Parallel()
	for name, flush := range map[string]func(w http.ResponseWriter) error{
		"flusher":    func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return nil },
		"controller": func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
	} {
		for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
			runs := 0
			h, _ := guarded(t, effect, func(w http.ResponseWriter, _ *http.Request) {
				runs++
				w.Header().Set("Content-Type", "text/event-stream")
				for n := range 3 {
					if err := flush(w); err != nil {
						panic(err)
					}
					fmt.Fprintf(w, "data: %d\n\n", n)
				}
				if err := flush(w); err != nil {
					panic(err)
				}
			})
			for _, replayed := range []bool{false, true} {
				w := send(h, "k", "b")
				requireAnswer(t, w, http.StatusOK, "data: 0\n\ndata: 1\n\ndata: 2\n\n", replayed)
				require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
			}
			require.Equal(t, 1, runs, "%s, %v", name, effect)
		}
	}
}

// The first Flush fixes the header, as it does without a guard.
func TestStream_flushFixesTheHeader(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		w.Header().Set("Location", "/late")
		w.WriteHeader(http.StatusTeapot)
	})
	for _, replayed := range []bool{false, true} {
		w := send(h, "k", "b")
		requireAnswer(t, w, http.StatusOK, "", replayed)
		require.Empty(t, w.Header().Get("Location"))
	}
}

// A proxy flushes what comes without a length, and panics if the flush fails.
func TestStream_reverseProxy(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Keyed, server.Opaque} {
		for _, mediaType := range []string{"text/plain", "text/event-stream"} {
			var ran atomic.Int64
			backend := serveQuietly(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				ran.Add(1)
				w.Header().Set("Content-Type", mediaType)
				_, _ = io.WriteString(w, "do")
				w.(http.Flusher).Flush() // chunked: no Content-Length
				_, _ = io.WriteString(w, "ne")
			}))
			target, err := url.Parse(backend.URL)
			require.NoError(t, err)
			seen := new(witness)
			store := memstore.New()
			h, err := newGuard(t, store, server.Config{Observer: seen}).Handler(effect, httputil.NewSingleHostReverseProxy(target))
			require.NoError(t, err)
			front := serveQuietly(t, h)
			for _, replayed := range []string{"false", "true"} {
				resp, body := postTo(t, front.Client(), front.URL, "k-1", "b")
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.Equal(t, "done", body)
				require.Equal(t, replayed, resp.Header.Get(wire.HeaderReplayed))
			}
			require.Equal(t, server.StateCompleted, readRecord(t, store, seen).State)
			require.EqualValues(t, 1, ran.Load())
		}
	}
}

// A handler that would hijack does not see the client's request for an upgrade. So it can refuse before it has an
// effect.
func TestStream_upgradeIsNotOffered(t *testing.T) {
	t.Parallel()
	for policy, want := range map[server.StreamPolicy]string{
		server.StreamBuffer: "", server.StreamRefuse: "", server.StreamTombstone: "tcp",
	} {
		h, err := newGuard(t, memstore.New(), server.Config{}).Route(server.Route{Effect: server.Opaque, Stream: policy},
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Upgrade")) }))
		require.NoError(t, err)
		r := ordered("k", "b", "Connection", "Upgrade", "Upgrade", "tcp")
		requireAnswer(t, serve(h, r), http.StatusOK, want, false)
		require.Equal(t, "tcp", r.Header.Get("Upgrade"), "the caller's own request stays as it is")
	}
}

// Behind a proxy a refused switch of protocols would come after the backend's effect.
func TestStream_reverseProxyDoesNotUpgrade(t *testing.T) {
	t.Parallel()
	var switched atomic.Int64
	backend := serveQuietly(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		switched.Add(1)
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "tcp")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}))
	target, err := url.Parse(backend.URL)
	require.NoError(t, err)
	h, err := newGuard(t, memstore.New(), server.Config{}).Handler(server.Opaque, httputil.NewSingleHostReverseProxy(target))
	require.NoError(t, err)
	front := serveQuietly(t, h)
	for range 2 {
		resp, _ := postTo(t, front.Client(), front.URL, "k", "b", "Connection", "Upgrade", "Upgrade", "tcp")
		require.Equal(t, http.StatusUpgradeRequired, resp.StatusCode)
	}
	require.Zero(t, switched.Load())
}

// A stream that passes still works where the route chose it.
func TestStream_tombstonePasses(t *testing.T) {
	t.Parallel()
	passed := make(chan string, 1)
	var front *httptest.Server
	h, err := newGuard(t, memstore.New(), server.Config{}).Route(server.Route{Effect: server.Keyed, Stream: server.StreamTombstone},
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "first")
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(err)
			}
			select {
			case got := <-passed:
				fmt.Fprint(w, " "+got)
			case <-t.Context().Done():
				panic(errors.New("no byte left before the handler returned"))
			}
		}))
	require.NoError(t, err)
	front = serveQuietly(t, h)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL, http.NoBody)
	require.NoError(t, err)
	r.Header.Set(wire.HeaderKey, "k")
	resp, err := front.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	start := make([]byte, len("first"))
	_, err = io.ReadFull(resp.Body, start)
	require.NoError(t, err)
	passed <- strings.ToUpper(string(start))
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, " FIRST", string(rest))
	again, _ := postTo(t, front.Client(), front.URL, "k", "")
	require.Equal(t, string(wire.ResponseGone), again.Header.Get(wire.HeaderCode))
}

// A refusal that passes comes with the guard's mark and advice, as any other does.
func TestStream_refusalPasses(t *testing.T) {
	t.Parallel()
	for status, again := range map[int]string{http.StatusNotFound: "false", http.StatusForbidden: "true", http.StatusBadGateway: "true"} {
		h, err := newGuard(t, memstore.New(), server.Config{}).Route(server.Route{Effect: server.Keyed, Stream: server.StreamTombstone},
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_ = http.NewResponseController(w).Flush()
			}))
		require.NoError(t, err)
		front := serveQuietly(t, h)
		resp, _ := postTo(t, front.Client(), front.URL, "k", "")
		require.Equal(t, []string{"false", again}, []string{resp.Header.Get(wire.HeaderReplayed), resp.Header.Get(wire.HeaderShouldRetry)}, status)
	}
}
