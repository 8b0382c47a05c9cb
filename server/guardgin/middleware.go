package guardgin

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/fanonce/fanonce/server"
)

// Middleware returns a handler of gin that guards the handlers behind it, as route says. A zero Name is the method and
// the path as gin's route has it: "POST /orders/:id". The handler answers replays and refusals itself and aborts, so
// that the handlers behind it do not run. Otherwise they run in its own goroutine, once.
//
// It returns a [*server.ConfigError] for a nil guard, and the errors of [server.Guard.Route].
func Middleware(guard *server.Guard, route server.Route) (gin.HandlerFunc, error) {
	if guard == nil {
		return nil, &server.ConfigError{Field: "guard", Value: "nil", Reason: "a Guard is required"}
	}
	guarded, err := guard.Route(route, http.HandlerFunc(callNext))
	if err != nil {
		return nil, err
	}
	return func(c *gin.Context) {
		p := &passage{c: c}
		r := c.Request.WithContext(context.WithValue(c.Request.Context(), passageKey{}, p))
		r.Pattern = r.Method + " " + c.FullPath()
		guarded.ServeHTTP(c.Writer, r)
		if !p.ran {
			c.Abort()
		}
	}, nil
}

// A passage leads a request from gin into the guard and back to gin's handlers.
type passage struct {
	c   *gin.Context
	ran bool
}

type passageKey struct{}

// callNext runs the rest of gin's handlers, with the request and the recorder of the guard's run.
func callNext(w http.ResponseWriter, r *http.Request) {
	p := r.Context().Value(passageKey{}).(*passage) //nolint:errcheck,forcetypeassert // Middleware put it there
	p.ran = true
	request, writer := p.c.Request, p.c.Writer
	recorder := newWriter(w)
	p.c.Request, p.c.Writer = r, recorder
	defer func() { p.c.Request, p.c.Writer = request, writer }()
	p.c.Next()
	recorder.WriteHeaderNow()
}
