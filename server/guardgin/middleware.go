package guardgin

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/fanonce/fanonce/server"
)

// Middleware returns a handler of gin that guards the handlers behind it, as route says. A zero Name is the method and
// the path as gin's route has it: "POST /orders/:id". The handler answers replays and refusals itself and aborts, so
// that the handlers behind it do not run. Otherwise they run in its own goroutine.
//
// They run once, or again in the same request if a conflict rolled the transaction of a [server.Transactional] route
// back. Each run finds gin's context as it was before the first one: its keys, errors and parameters, and not aborted.
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
		if !p.before.IsValid() {
			c.Abort()
		}
	}, nil
}

// A passage leads a request from gin into the guard and back to gin's handlers.
type passage struct {
	c      *gin.Context
	before reflect.Value // c as it was before the first run; the zero Value: no run has begun
}

type passageKey struct{}

// callNext runs the rest of gin's handlers, with the request and the recorder of the guard's run.
func callNext(w http.ResponseWriter, r *http.Request) {
	p := r.Context().Value(passageKey{}).(*passage) //nolint:errcheck,forcetypeassert // Middleware put it there
	p.rewind()
	request, writer := p.c.Request, p.c.Writer
	recorder := newWriter(w)
	p.c.Request, p.c.Writer = r, recorder
	defer func() { p.c.Request, p.c.Writer = request, writer }()
	p.c.Next()
	recorder.WriteHeaderNow()
}

// rewind makes gin's context what it was before the first run. Without it the chain of a further run would be at its end:
// no handler would run, and the guard would store an empty answer.
//
// Gin has no function for it: the place in the chain is not exported. So the whole context is copied, which needs no name
// of its fields. No other goroutine may use the context meanwhile, as everywhere in gin.
func (p *passage) rewind() {
	now := reflect.ValueOf(p.c).Elem()
	if p.before.IsValid() {
		now.Set(p.before)
	} else {
		p.before = reflect.New(now.Type()).Elem()
		p.before.Set(now)
	}
	// What the copy shares with the run must not reach the next one.
	p.c.Keys, p.c.Params = maps.Clone(p.c.Keys), slices.Clone(p.c.Params)
	p.c.Errors, p.c.Accepted = slices.Clone(p.c.Errors), slices.Clone(p.c.Accepted)
}
