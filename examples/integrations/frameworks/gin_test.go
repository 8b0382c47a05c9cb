package frameworks

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgin"
	"github.com/fanonce/fanonce/server/memstore"
)

// newGinShop returns a service of gin that build puts together from the guard and the layers.
func newGinShop(t *testing.T, build func(guard gin.HandlerFunc, l GinLayers) gin.HandlersChain) *shop {
	t.Helper()
	s := newShop(t)
	guarded, err := guardgin.Middleware(s.guard, orderRoute)
	require.NoError(t, err)
	l := NewGinLayers(func(*gin.Context) { s.traced.spans.Add(1) })
	l.Recover = gin.RecoveryWithWriter(io.Discard)
	e := gin.New()
	e.POST("/orders", append(build(guarded, l), func(c *gin.Context) { s.placeOrder(c.Writer, c.Request) })...)
	s.handler = e
	return s
}

func TestGinLayers(t *testing.T) {
	gin.SetMode(gin.TestMode)
	requireRightOrder(t, newGinShop(t, func(guard gin.HandlerFunc, l GinLayers) gin.HandlersChain {
		return gin.HandlersChain{l.Trace, l.RequestID, l.Recover, l.CORS, l.Compress, l.Authenticate, guard}
	}))
}

// Each wrong place, and what happens. Some have the right place beside them.
func TestGinLayers_wrongPlace(t *testing.T) {
	gin.SetMode(gin.TestMode)
	for _, tt := range []struct {
		name  string
		build func(guard gin.HandlerFunc, l GinLayers) gin.HandlersChain
		check func(t *testing.T, s *shop)
	}{
		{"gzip inside: logged; a replay is decoded for a client that cannot read it", func(guard gin.HandlerFunc, l GinLayers) gin.HandlersChain {
			return gin.HandlersChain{l.Authenticate, guard, l.Compress}
		}, func(t *testing.T, s *shop) {
			require.Equal(t, "gzip", s.order("k", "", zip).Header().Get("Content-Encoding"))
			again := s.order("k", "", nil)
			require.Empty(t, again.Header().Get("Content-Encoding"))
			require.Contains(t, again.Body.String(), `"order":1`)
			require.Contains(t, s.log.String(), "compresses be outside of the guard")
		}},
		{"CORS inside: logged; the page cannot read a replay", func(guard gin.HandlerFunc, l GinLayers) gin.HandlersChain {
			return gin.HandlersChain{l.Authenticate, guard, l.CORS}
		}, func(t *testing.T, s *shop) {
			require.NotEmpty(t, s.order("k", "", nil).Header().Get("Access-Control-Allow-Origin"))
			require.Empty(t, s.order("k", "", nil).Header().Get("Access-Control-Allow-Origin"))
			require.Contains(t, s.log.String(), "headers of CORS")
		}},
		{"authentication inside: 401, because there is no scope", func(guard gin.HandlerFunc, l GinLayers) gin.HandlersChain {
			return gin.HandlersChain{guard, l.Authenticate}
		}, func(t *testing.T, s *shop) {
			w := s.order("k", "", nil)
			require.Equal(t, http.StatusUnauthorized, w.Code)
			require.Equal(t, "scope-missing", w.Header().Get("Idempotency-Code"))
			require.Zero(t, s.orders.Load())
		}},
		{"recovery inside: logged; half an answer counts as a whole one, and is stored", func(guard gin.HandlerFunc, l GinLayers) gin.HandlersChain {
			return gin.HandlersChain{l.Authenticate, guard, l.Recover}
		}, func(t *testing.T, s *shop) {
			require.Equal(t, http.StatusOK, s.order("k", "?late", nil).Code)
			require.Equal(t, "true", s.order("k", "?late", nil).Header().Get("Idempotent-Replayed"))
			require.Contains(t, s.log.String(), "let a middleware that recovers be outside")
		}},
		{"recovery outside: the run with half an answer failed, and the next one runs", func(guard gin.HandlerFunc, l GinLayers) gin.HandlersChain {
			return gin.HandlersChain{l.Recover, l.Authenticate, guard}
		}, func(t *testing.T, s *shop) {
			for range 2 {
				require.Equal(t, http.StatusInternalServerError, s.order("k", "?late", nil).Code)
			}
			require.EqualValues(t, 2, s.orders.Load())
		}},
		{"tracing inside: replays have no span", func(guard gin.HandlerFunc, l GinLayers) gin.HandlersChain {
			return gin.HandlersChain{l.Authenticate, guard, l.Trace}
		}, func(t *testing.T, s *shop) {
			s.order("k", "", nil)
			s.order("k", "", nil)
			require.EqualValues(t, 1, s.traced.spans.Load())
		}},
		{"request ID inside: a replay has none", func(guard gin.HandlerFunc, l GinLayers) gin.HandlersChain {
			return gin.HandlersChain{l.Authenticate, guard, l.RequestID}
		}, func(t *testing.T, s *shop) {
			require.NotEmpty(t, s.order("k", "", nil).Header().Get("X-Request-Id"))
			require.Empty(t, s.order("k", "", nil).Header().Get("X-Request-Id"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.check(t, newGinShop(t, tt.build))
		})
	}
}

// A timeout around the engine answers in time, and the run goes on, once.
func TestGin_timeoutOutside(t *testing.T) {
	gin.SetMode(gin.TestMode)
	s := newGinShop(t, func(guard gin.HandlerFunc, l GinLayers) gin.HandlersChain {
		return gin.HandlersChain{l.Authenticate, guard}
	})
	s.handler = http.TimeoutHandler(s.handler, 20*time.Millisecond, "")
	require.Equal(t, http.StatusServiceUnavailable, s.order("k", "?takes=200ms", nil).Code)
	require.Eventually(t, func() bool { return s.order("k", "?takes=200ms", nil).Code == http.StatusOK }, time.Minute, time.Millisecond)
	require.EqualValues(t, 1, s.orders.Load())
}

// With the guard around the engine a timeout between them gives the handler up: the retry is a second run beside the first.
func TestGin_timeoutInside(t *testing.T) {
	gin.SetMode(gin.TestMode)
	s := newShop(t)
	e, release := gin.New(), make(chan struct{})
	e.POST("/orders", func(*gin.Context) {
		s.orders.Add(1)
		<-release
	})
	guarded, err := s.guard.Route(orderRoute, http.TimeoutHandler(e, time.Millisecond, ""))
	require.NoError(t, err)
	s.handler = authenticate(guarded)
	for range 2 {
		require.Equal(t, http.StatusServiceUnavailable, s.order("k", "", nil).Code)
	}
	require.Eventually(t, func() bool { return s.orders.Load() == 2 }, time.Minute, time.Millisecond)
	require.Contains(t, s.log.String(), "http.TimeoutHandler is inside the guard")
	close(release)
}

func TestNewGinService(t *testing.T) {
	gin.SetMode(gin.TestMode)
	guard, err := server.NewGuard(memstore.New(), TenantOf, server.Config{})
	require.NoError(t, err)
	orders := 0
	h, err := NewGinService(guard, NewGinLayers(func(*gin.Context) {}), func(c *gin.Context) {
		orders++
		c.String(http.StatusCreated, "done")
	})
	require.NoError(t, err)
	s := &shop{handler: h}
	for _, replayed := range []string{"false", "true"} {
		w := s.order("k", "", nil)
		require.Equal(t, []any{http.StatusCreated, "done"}, []any{w.Code, w.Body.String()})
		require.Equal(t, replayed, w.Header().Get("Idempotent-Replayed"))
	}
	require.Equal(t, 1, orders)
}
