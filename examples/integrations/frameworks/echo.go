package frameworks

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/fanonce/fanonce/server"
)

// Echo returns a middleware of echo that guards the handlers behind it, as route says. A zero Name is the method and the
// path as echo's route has it: "POST /orders/:id".
//
// An error of a handler is answered inside the run. Behind [echo.WrapMiddleware] echo answers it only when the guard has
// returned: the guard would have stored an empty 200 by then.
//
// After a conflict of transactions the handlers run again. What they put into echo's context with Set is still there.
func Echo(guard *server.Guard, route server.Route) (echo.MiddlewareFunc, error) {
	guarded, err := guard.Route(route, http.HandlerFunc(runEcho))
	if err != nil {
		return nil, err
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			request, response := c.Request(), c.Response()
			defer func() {
				c.SetRequest(request)
				c.SetResponse(response)
			}()
			r := request.WithContext(context.WithValue(request.Context(), passageKey{}, &passage{c, next}))
			r.Pattern = r.Method + " " + c.Path()
			guarded.ServeHTTP(response, r)
			return nil
		}
	}, nil
}

// A passage leads a request from echo into the guard and back to echo's handlers.
type passage struct {
	echo.Context
	next echo.HandlerFunc
}

type passageKey struct{}

// runEcho runs echo's handlers, with the request and the recorder of the guard's run.
func runEcho(w http.ResponseWriter, r *http.Request) {
	p := r.Context().Value(passageKey{}).(*passage) //nolint:errcheck,forcetypeassert // Echo put it there
	p.SetRequest(r)
	p.SetResponse(echo.NewResponse(w, p.Echo()))
	if err := p.next(p.Context); err != nil {
		p.Error(err)
	}
}
