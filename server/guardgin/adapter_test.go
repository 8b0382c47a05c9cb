package guardgin_test

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/adaptertest"
	"github.com/fanonce/fanonce/server/guardgin"
	"github.com/fanonce/fanonce/server/memstore"
)

// serveQuietly serves e over a socket, and writes no log.
func serveQuietly(tb testing.TB, e *gin.Engine) *httptest.Server {
	tb.Helper()
	s := httptest.NewUnstartedServer(e)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	tb.Cleanup(s.Close)
	return s
}

// guardFor returns the guard's handler for the operation.
func guardFor(tb testing.TB, op adaptertest.Operation) gin.HandlerFunc {
	tb.Helper()
	guarded, err := guardgin.Middleware(op.Guard, server.Route{Effect: server.Transactional})
	require.NoError(tb, err)
	return guarded
}

// answerAs answers a request in one of gin's ways.
type answerAs func(c *gin.Context, reply adaptertest.Reply, err error)

// waysToAnswer are gin's ways to answer a request.
var waysToAnswer = map[string]answerAs{
	"String": func(c *gin.Context, reply adaptertest.Reply, err error) {
		c.String(adaptertest.StatusOf(err), "%s", reply.Text)
	},
	"Abort": func(c *gin.Context, reply adaptertest.Reply, err error) {
		if err != nil {
			_ = c.AbortWithError(adaptertest.StatusOf(err), err)
			return
		}
		c.Data(http.StatusCreated, "text/plain", []byte(reply.Text))
	},
	"Status and Write": func(c *gin.Context, reply adaptertest.Reply, err error) {
		c.Status(adaptertest.StatusOf(err))
		_, _ = c.Writer.WriteString(reply.Text)
	},
}

func answeringHandler(op adaptertest.Operation, answer answerAs) gin.HandlerFunc {
	return func(c *gin.Context) {
		input, _ := io.ReadAll(c.Request.Body)
		reply, err := op.Handle(c.Request.Context(), string(input))
		c.Writer.Header().Add(adaptertest.NoteHeader, reply.Note)
		answer(c, reply, err)
	}
}

// Whatever a handler does to gin's context in a run that is rolled back, the next run really runs.
func TestAdapter(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.TestMode)
	for name, answer := range waysToAnswer {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
				e := gin.New()
				e.Use(gin.RecoveryWithWriter(io.Discard))
				e.POST("/v1/orders", guardFor(tb, op), answeringHandler(op, answer))
				s := serveQuietly(tb, e)
				return adaptertest.HTTP(s.Client(), s.URL+"/v1/orders")
			})
		})
	}
}

var errSeen = errors.New("a middleware behind the guard found the context of an earlier run")

// The middlewares behind the guard run again too. Each run finds the keys, errors and parameters that the middlewares
// before the guard left, a body that nobody has read, and a chain that nobody has aborted.
func TestAdapter_middlewares(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.TestMode)
	adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
		e := gin.New()
		e.Use(gin.RecoveryWithWriter(io.Discard))
		authenticate := func(c *gin.Context) { // before the guard: once for each request
			c.Set("user", "ann")
			c.Set("visits", new(atomic.Int32))
			c.Next()
		}
		once := func(c *gin.Context) { // behind it: once for each run
			_, seen := c.Get("seen")
			if seen || len(c.Errors) > 0 || c.IsAborted() || c.Param("id") != "7" || c.MustGet("user") != "ann" || len(c.Params) != 1 {
				_ = c.AbortWithError(http.StatusTeapot, errSeen)
				return
			}
			c.Set("seen", true)
			c.Set("user", "bob")
			c.Params[0].Value = "8"
			c.AddParam("more", "params")
			_ = c.Error(errors.New("of this run"))
			c.SetAccepted("text/plain")
			var body []byte
			if err := c.ShouldBindBodyWithPlain(&body); err != nil { // reads the body, and keeps it in a key
				_ = c.AbortWithError(http.StatusTeapot, err)
				return
			}
			c.Next()
			if !c.Writer.Written() {
				c.AbortWithStatus(http.StatusTeapot)
			}
		}
		e.POST("/v1/orders/:id", authenticate, guardFor(tb, op), once, func(c *gin.Context) {
			input, _ := c.Get(gin.BodyBytesKey)
			reply, err := op.Handle(c.Request.Context(), string(input.([]byte))) //nolint:forcetypeassert // of ShouldBindBodyWith
			c.Writer.Header().Add(adaptertest.NoteHeader, reply.Note)
			waysToAnswer["Abort"](c, reply, err)
		})
		s := serveQuietly(tb, e)
		return adaptertest.HTTP(s.Client(), s.URL+"/v1/orders/7")
	})
}

// A router for typed operations has no chain behind the guard.
func TestAdapter_router(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.TestMode)
	order := contract.Post[string, string]("shop", "order", "/orders/{id}")
	adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
		e := gin.New()
		e.Use(gin.RecoveryWithWriter(io.Discard))
		require.NoError(tb, server.Handle(guardgin.Router(e), op.Guard, order, server.Transactional, adaptertest.Typed(op)))
		s := serveQuietly(tb, e)
		return adaptertest.TypedHTTP(s.Client(), s.URL+"/orders/7")
	})
}

// A middleware before the guard sees what the last run left in gin's context, as it does without a guard.
func TestMiddleware_leavesTheLastRun(t *testing.T) {
	t.Parallel()
	var runs, left atomic.Int32
	url := serve(t, func(e *gin.Engine) {
		e.Use(func(c *gin.Context) {
			c.Next()
			left.Store(c.GetInt32("run"))
		})
		e.POST("/", middleware(t, newGuard(t, server.Config{}), server.Route{Effect: server.Transactional}), func(c *gin.Context) {
			n := runs.Add(1)
			c.Set("run", n)
			if n == 1 {
				_ = memstore.Tx(c.Request.Context()).Doom()
			}
			c.Status(http.StatusNoContent)
		})
	})
	require.Equal(t, http.StatusNoContent, post(t, url, "k", "").status)
	require.Equal(t, []int32{2, 2}, []int32{runs.Load(), left.Load()})
}
