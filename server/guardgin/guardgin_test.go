package guardgin_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgin"
	"github.com/fanonce/fanonce/server/memstore"
)

func newGuard(t *testing.T, cfg server.Config) *server.Guard {
	t.Helper()
	g, err := server.NewGuard(memstore.New(), server.Unscoped, cfg)
	require.NoError(t, err)
	return g
}

// serve starts a real server for what routes registers.
func serve(t *testing.T, routes func(e *gin.Engine)) (url string) {
	t.Helper()
	gin.SetMode(gin.TestMode)
	e := gin.New()
	e.Use(gin.RecoveryWithWriter(io.Discard))
	routes(e)
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	return s.URL
}

type answer struct {
	status   int
	body     string
	header   http.Header
	replayed bool
}

func post(t *testing.T, url, key, body string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, string(text), resp.Header, resp.Header.Get("Idempotent-Replayed") == "true"}
}

func middleware(t *testing.T, g *server.Guard, r server.Route) gin.HandlerFunc {
	t.Helper()
	m, err := guardgin.Middleware(g, r)
	require.NoError(t, err)
	return m
}

// The handlers behind the guard run once; those before it see every request, and what was answered.
func TestMiddleware(t *testing.T) {
	t.Parallel()
	var runs, before, after atomic.Int32
	var status, size atomic.Int64
	url := serve(t, func(e *gin.Engine) {
		e.Use(func(c *gin.Context) {
			before.Add(1)
			c.Next()
			status.Store(int64(c.Writer.Status()))
			size.Store(int64(c.Writer.Size()))
		})
		e.POST("/orders/:id", middleware(t, newGuard(t, server.Config{}), server.Route{Effect: server.Keyed}), func(c *gin.Context) {
			runs.Add(1)
			_, ok := childkey.FromContext(c.Request.Context())
			c.Header("X-Parent", fmt.Sprint(ok))
			body, _ := io.ReadAll(c.Request.Body)
			c.JSON(http.StatusCreated, gin.H{"id": c.Param("id"), "body": string(body)})
		}, func(*gin.Context) { after.Add(1) })
	})
	first := post(t, url+"/orders/7", "k-1", "tea")
	require.Equal(t, answer{http.StatusCreated, `{"body":"tea","id":"7"}`, first.header, false}, first)
	require.Equal(t, "true", first.header.Get("X-Parent"))
	again := post(t, url+"/orders/7", "k-1", "tea")
	require.Equal(t, []any{first.status, first.body, true}, []any{again.status, again.body, again.replayed})
	require.Equal(t, first.header.Get("Content-Type"), again.header.Get("Content-Type"))
	require.Equal(t, []int64{http.StatusCreated, int64(len(first.body))}, []int64{status.Load(), size.Load()})
	require.Equal(t, http.StatusUnprocessableEntity, post(t, url+"/orders/7", "k-1", "other").status)
	require.Equal(t, http.StatusBadRequest, post(t, url+"/orders/7", "", "tea").status)
	require.Equal(t, []int32{1, 1, 4}, []int32{runs.Load(), after.Load(), before.Load()})
}

// Gin's ways to answer all come through: a status alone, an abort, an error, a late change of the status, a panic.
func TestMiddleware_waysToAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		handler gin.HandlerFunc
		status  int
		body    string
		stored  bool
	}{
		"nothing":     {func(*gin.Context) {}, http.StatusOK, "", true},
		"status":      {func(c *gin.Context) { c.Status(http.StatusNoContent) }, http.StatusNoContent, "", true},
		"late status": {func(c *gin.Context) { c.Status(http.StatusTeapot); c.Status(http.StatusAccepted) }, http.StatusAccepted, "", true},
		"abort":       {func(c *gin.Context) { c.AbortWithStatus(http.StatusConflict) }, http.StatusConflict, "", true},
		"string":      {func(c *gin.Context) { c.String(http.StatusOK, "%s", "hi") }, http.StatusOK, "hi", true},
		"error":       {func(c *gin.Context) { c.AbortWithStatus(http.StatusBadGateway) }, http.StatusBadGateway, "", false},
		"panic":       {func(*gin.Context) { panic("a bug") }, http.StatusInternalServerError, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(e *gin.Engine) {
				e.POST("/", middleware(t, newGuard(t, server.Config{}), server.Route{Effect: server.Keyed}), tt.handler)
			})
			for _, replayed := range []bool{false, tt.stored} {
				got := post(t, url, "k", "{}")
				require.Equal(t, []any{tt.status, tt.body, replayed}, []any{got.status, got.body, got.replayed})
			}
		})
	}
}

// The route's name has the method and gin's path, and not the values in it.
func TestMiddleware_routeName(t *testing.T) {
	t.Parallel()
	var name atomic.Value
	g := newGuard(t, server.Config{Observer: observer(func(e server.Event) { name.Store(e.Route) })})
	url := serve(t, func(e *gin.Engine) {
		e.Group("/v1").POST("/orders/:id", middleware(t, g, server.Route{Effect: server.Keyed}), func(*gin.Context) {})
	})
	post(t, url+"/v1/orders/7", "k", "")
	require.Equal(t, "POST /v1/orders/:id", name.Load())
}

type line struct{ SKU string }

type hold struct{ ID string }

func TestRouter(t *testing.T) {
	t.Parallel()
	reserve := contract.Post[line, hold]("inventory", "reserve", "/shops/{shop}/lines/{id}")
	url := serve(t, func(e *gin.Engine) {
		routes, g := guardgin.Router(e.Group("/v1")), newGuard(t, server.Config{})
		fn := func(ctx context.Context, in line) (hold, error) {
			return hold{server.PathValue(ctx, "shop") + server.PathValue(ctx, "id") + in.SKU}, nil
		}
		require.NoError(t, server.Handle(routes, g, reserve, server.Keyed, fn))
		require.ErrorContains(t, server.Handle(routes, g, reserve, server.Keyed, fn), "already registered")
	})
	for _, replayed := range []bool{false, true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/shops/a/lines/b", strings.NewReader(`{"SKU":"c"}`))
		require.NoError(t, err)
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.JSONEq(t, `{"ID":"abc"}`, string(text))
		require.Equal(t, fmt.Sprint(replayed), resp.Header.Get("Idempotent-Replayed"))
	}
}

func TestMiddleware_badInput(t *testing.T) {
	t.Parallel()
	var config *server.ConfigError
	_, err := guardgin.Middleware(nil, server.Route{Effect: server.Keyed})
	require.ErrorAs(t, err, &config)
	_, err = guardgin.Middleware(newGuard(t, server.Config{}), server.Route{})
	require.ErrorAs(t, err, &config)
}

type observer func(server.Event)

func (o observer) Observe(_ context.Context, e server.Event) { o(e) }
