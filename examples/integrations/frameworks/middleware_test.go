package frameworks

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

type layer = func(http.Handler) http.Handler

// A counter is a trace that counts requests.
type counter struct{ spans atomic.Int64 }

func (c *counter) trace(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.spans.Add(1)
		next.ServeHTTP(w, r)
	})
}

// A buffer is a log.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A shop is a service under test, which counts its orders.
type shop struct {
	handler http.Handler
	guard   *server.Guard
	log     *buffer
	traced  *counter
	orders  *atomic.Int64
}

// newShop returns a service without its layers.
func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{log: new(buffer), traced: new(counter), orders: new(atomic.Int64)}
	var err error
	s.guard, err = server.NewGuard(memstore.New(), TenantOf, server.Config{Logger: slog.New(slog.NewTextHandler(s.log, nil)), Wait: 10 * time.Millisecond})
	require.NoError(t, err)
	return s
}

var orderRoute = server.Route{Effect: server.Keyed, Name: "orders"}

// placeOrder is the handler. A query makes it slow, or makes it panic.
func (s *shop) placeOrder(w http.ResponseWriter, r *http.Request) {
	n := s.orders.Add(1)
	if d, err := time.ParseDuration(r.URL.Query().Get("takes")); err == nil {
		time.Sleep(d)
	}
	if r.URL.Query().Has("panic") {
		panic("no tea")
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"order":%d,"note":%q}`, n, strings.Repeat("tea ", 1000))
	if r.URL.Query().Has("late") {
		panic("no sugar")
	}
}

// newLayeredShop returns a service that build puts together from the guard and the layers.
func newLayeredShop(t *testing.T, build func(guard layer, l Layers) []layer) *shop {
	t.Helper()
	s := newShop(t)
	s.handler = http.HandlerFunc(s.placeOrder)
	guarded := func(next http.Handler) http.Handler {
		h, err := s.guard.Route(orderRoute, next)
		require.NoError(t, err)
		return h
	}
	layers := build(guarded, NewLayers(s.traced.trace))
	for i := len(layers) - 1; i >= 0; i-- {
		s.handler = layers[i](s.handler)
	}
	return s
}

// order sends an order from a script of the shop's page.
func (s *shop) order(key, query string, header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/orders"+query, strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Origin", "https://shop.example")
	r.Header.Set("X-Tenant", "acme")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

func plain(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	if w.Header().Get("Content-Encoding") != "gzip" {
		return w.Body.String()
	}
	z, err := gzip.NewReader(w.Body)
	require.NoError(t, err)
	body, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(body)
}

// The right order: a replay has all that a first answer has, for whatever client asks.
func TestLayers(t *testing.T) {
	t.Parallel()
	requireRightOrder(t, newLayeredShop(t, func(guard layer, l Layers) []layer {
		return []layer{l.Trace, l.RequestID, l.Recover, l.CORS, l.Compress, l.Authenticate, guard}
	}))
}

func requireRightOrder(t *testing.T, s *shop) {
	t.Helper()
	first, zipped, bare := s.order("k", "", zip), s.order("k", "", zip), s.order("k", "", nil)
	require.Equal(t, "gzip", first.Header().Get("Content-Encoding"))
	require.Equal(t, "gzip", zipped.Header().Get("Content-Encoding"))
	require.Empty(t, bare.Header().Get("Content-Encoding"))
	for _, w := range []*httptest.ResponseRecorder{zipped, bare} {
		require.Equal(t, "true", w.Header().Get("Idempotent-Replayed"))
		require.Equal(t, "https://shop.example", w.Header().Get("Access-Control-Allow-Origin"))
	}
	require.Contains(t, zipped.Header()["Vary"], "Accept-Encoding")
	require.Equal(t, plain(t, zipped), plain(t, bare))
	require.EqualValues(t, 1, s.orders.Load())
	require.EqualValues(t, 3, s.traced.spans.Load(), "replays are traced")
	require.Equal(t, http.StatusUnauthorized, s.order("k", "", map[string]string{"X-Tenant": ""}).Code)
	require.Equal(t, http.StatusInternalServerError, s.order("p", "?panic", nil).Code, "the middleware that recovers answers")
	require.NotContains(t, s.log.String(), "of the guard")
}

// zip are the headers of a client that reads gzip.
var zip = map[string]string{"Accept-Encoding": "gzip"}

// Each wrong place, and what happens. Some have the right place beside them.
func TestLayers_wrongPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		build func(guard layer, l Layers) []layer
		check func(t *testing.T, s *shop)
	}{
		{"gzip inside: logged; a replay is decoded for who cannot read it", func(guard layer, l Layers) []layer {
			return []layer{l.Authenticate, guard, l.Compress}
		}, func(t *testing.T, s *shop) {
			require.Equal(t, "gzip", s.order("k", "", zip).Header().Get("Content-Encoding"))
			again := s.order("k", "", nil)
			require.Empty(t, again.Header().Get("Content-Encoding"))
			require.Contains(t, again.Body.String(), `"order":1`)
			require.Contains(t, s.log.String(), "compresses be outside of the guard")
		}},
		{"CORS inside: logged; the page cannot read a replay", func(guard layer, l Layers) []layer {
			return []layer{l.Authenticate, guard, l.CORS}
		}, func(t *testing.T, s *shop) {
			require.NotEmpty(t, s.order("k", "", nil).Header().Get("Access-Control-Allow-Origin"))
			require.Empty(t, s.order("k", "", nil).Header().Get("Access-Control-Allow-Origin"))
			require.Contains(t, s.log.String(), "headers of CORS")
		}},
		{"authentication inside: no scope, so nothing is guarded by mistake", func(guard layer, l Layers) []layer {
			return []layer{guard, l.Authenticate}
		}, func(t *testing.T, s *shop) {
			w := s.order("k", "", nil)
			require.Equal(t, http.StatusUnauthorized, w.Code)
			require.Equal(t, "scope-missing", w.Header().Get("Idempotency-Code"))
			require.Zero(t, s.orders.Load())
		}},
		{"recovery inside: logged; half an answer counts as a whole one, and is stored", func(guard layer, l Layers) []layer {
			return []layer{l.Authenticate, guard, l.Recover}
		}, func(t *testing.T, s *shop) {
			require.Equal(t, http.StatusOK, s.order("k", "?late", nil).Code)
			require.Equal(t, "true", s.order("k", "?late", nil).Header().Get("Idempotent-Replayed"))
			require.Contains(t, s.log.String(), "let a middleware that recovers be outside")
		}},
		{"recovery outside: the run with half an answer failed, and the next one runs", func(guard layer, l Layers) []layer {
			return []layer{l.Recover, l.Authenticate, guard}
		}, func(t *testing.T, s *shop) {
			for range 2 {
				require.Equal(t, http.StatusInternalServerError, s.order("k", "?late", nil).Code)
			}
			require.EqualValues(t, 2, s.orders.Load())
		}},
		{"tracing inside: replays have no span", func(guard layer, l Layers) []layer {
			return []layer{l.Authenticate, guard, l.Trace}
		}, func(t *testing.T, s *shop) {
			s.order("k", "", nil)
			s.order("k", "", nil)
			require.EqualValues(t, 1, s.traced.spans.Load())
		}},
		{"request ID inside: a replay is logged without one", func(guard layer, l Layers) []layer {
			return []layer{l.Authenticate, guard, l.RequestID, echoRequestID}
		}, func(t *testing.T, s *shop) {
			require.NotEmpty(t, s.order("k", "", nil).Header().Get("X-Request-Id"))
			require.Empty(t, s.order("k", "", nil).Header().Get("X-Request-Id"))
		}},
		{"http.TimeoutHandler inside: logged; the run goes on behind its 503, and the retry is a second run beside it", func(guard layer, l Layers) []layer {
			return []layer{l.Authenticate, guard, func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Millisecond, "") }}
		}, func(t *testing.T, s *shop) {
			for range 2 {
				require.Equal(t, http.StatusServiceUnavailable, s.order("k", "?takes=200ms", nil).Code)
			}
			require.Eventually(t, func() bool { return s.orders.Load() == 2 }, time.Minute, time.Millisecond)
			require.Contains(t, s.log.String(), "http.TimeoutHandler is inside the guard")
		}},
		{"a timeout outside that only ends the ctx: nothing, because the run has a ctx of its own", func(guard layer, l Layers) []layer {
			return []layer{middleware.Timeout(time.Millisecond), l.Authenticate, guard}
		}, func(t *testing.T, s *shop) {
			require.Equal(t, http.StatusOK, s.order("k", "?takes=50ms", nil).Code)
		}},
		{"a timeout outside: the client has its answer in time, and the run goes on, once", func(guard layer, l Layers) []layer {
			return []layer{func(next http.Handler) http.Handler { return http.TimeoutHandler(next, 20*time.Millisecond, "") }, l.Authenticate, guard}
		}, func(t *testing.T, s *shop) {
			require.Equal(t, http.StatusServiceUnavailable, s.order("k", "?takes=200ms", nil).Code)
			require.Eventually(t, func() bool { return s.order("k", "?takes=200ms", nil).Code == http.StatusOK }, time.Minute, time.Millisecond)
			require.EqualValues(t, 1, s.orders.Load())
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.check(t, newLayeredShop(t, tt.build))
		})
	}
}

// echoRequestID answers with the ID that [middleware.RequestID] made.
func echoRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", middleware.GetReqID(r.Context()))
		next.ServeHTTP(w, r)
	})
}

func TestNewChiService(t *testing.T) {
	t.Parallel()
	guard, err := server.NewGuard(memstore.New(), TenantOf, server.Config{})
	require.NoError(t, err)
	orders := 0
	h, err := NewChiService(guard, NewLayers(new(counter).trace), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		fmt.Fprint(w, "done")
	}))
	require.NoError(t, err)
	s := &shop{handler: h}
	require.Equal(t, "done", s.order("k", "", nil).Body.String())
	require.Equal(t, "true", s.order("k", "", nil).Header().Get("Idempotent-Replayed"))
	require.Equal(t, 1, orders)
}
