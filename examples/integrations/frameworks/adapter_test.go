package frameworks

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/gorilla/mux"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/adaptertest"
)

var orders = server.Route{Name: "POST /v1/orders", Effect: server.Transactional}

// guardMiddleware is the guard in the form of net/http's middlewares.
func guardMiddleware(tb testing.TB, op adaptertest.Operation) func(http.Handler) http.Handler {
	tb.Helper()
	return func(next http.Handler) http.Handler {
		h, err := op.Guard.Route(orders, next)
		require.NoError(tb, err)
		return h
	}
}

// echoHandler is the operation as a handler of echo.
func echoHandler(op adaptertest.Operation) echo.HandlerFunc {
	return func(c echo.Context) error {
		input, err := io.ReadAll(c.Request().Body)
		if err != nil {
			return err
		}
		reply, err := op.Handle(c.Request().Context(), string(input))
		c.Response().Header().Add(adaptertest.NoteHeader, reply.Note)
		switch {
		case errors.Is(err, adaptertest.ErrRefused):
			return echo.ErrBadRequest
		case err != nil:
			return err
		}
		return c.String(http.StatusCreated, reply.Text)
	}
}

// middlewares are further ways to put a guard before a handler.
var middlewares = map[string]func(tb testing.TB, op adaptertest.Operation) http.Handler{
	"chi, With": func(tb testing.TB, op adaptertest.Operation) http.Handler {
		r := chi.NewRouter()
		r.Route("/v1", func(v1 chi.Router) {
			v1.With(guardMiddleware(tb, op)).Method(http.MethodPost, "/orders", adaptertest.Handler(op))
		})
		return r
	},
	"chi, Use before the routes": func(tb testing.TB, op adaptertest.Operation) http.Handler {
		r := chi.NewRouter()
		r.Route("/v1", func(v1 chi.Router) {
			v1.Use(middleware.Recoverer, guardMiddleware(tb, op), middleware.CleanPath, middleware.AllowContentType("text/plain"))
			v1.Method(http.MethodPost, "/orders", adaptertest.Handler(op))
		})
		return r
	},
	"chi, Use before a mount": func(_ testing.TB, op adaptertest.Operation) http.Handler {
		r := chi.NewRouter()
		r.Use(Chi(op.Guard, orders))
		r.Route("/{version}", func(v1 chi.Router) {
			v1.Post("/{what}", func(w http.ResponseWriter, r *http.Request) {
				if params := chi.RouteContext(r.Context()).URLParams; len(params.Keys) != 3 { // version, *, what
					w.WriteHeader(http.StatusTeapot)
					return
				}
				adaptertest.Handler(op).ServeHTTP(w, r)
			})
		})
		return r
	},
	"gorilla, Use": func(tb testing.TB, op adaptertest.Operation) http.Handler {
		r := mux.NewRouter()
		r.Use(guardMiddleware(tb, op))
		v1 := r.PathPrefix("/{version}").Subrouter()
		v1.Handle("/orders", adaptertest.Handler(op)).Methods(http.MethodPost)
		return r
	},
	"echo": func(tb testing.TB, op adaptertest.Operation) http.Handler {
		e := echo.New()
		guarded, err := Echo(op.Guard, server.Route{Effect: server.Transactional})
		require.NoError(tb, err)
		e.Group("/v1").POST("/orders", echoHandler(op), guarded)
		return e
	},
	"http.TimeoutHandler around": func(tb testing.TB, op adaptertest.Operation) http.Handler {
		return http.TimeoutHandler(guardMiddleware(tb, op)(adaptertest.Handler(op)), time.Minute, "")
	},
	"http.TimeoutHandler inside": func(tb testing.TB, op adaptertest.Operation) http.Handler {
		return guardMiddleware(tb, op)(http.TimeoutHandler(adaptertest.Handler(op), time.Minute, ""))
	},
}

// Under each framework, and with each way to put the guard before a handler, a run that a conflict rolled back is
// followed by one that takes effect.
func TestAdapter(t *testing.T) {
	t.Parallel()
	for name, under := range middlewares {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
				s := httptest.NewUnstartedServer(under(tb, op))
				s.Config.ErrorLog = log.New(io.Discard, "", 0)
				s.Start()
				tb.Cleanup(s.Close)
				return adaptertest.HTTP(s.Client(), s.URL+"/v1/orders")
			})
		})
	}
	for name, under := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
				guarded := guardMiddleware(tb, op)(adaptertest.Handler(op))
				return adaptertest.HTTP(http.DefaultClient, under(tb, recoverer(guarded))+"/v1/orders")
			})
		})
	}
}

// recoverer answers a panic with 500, because fiber would end the process.
func recoverer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}
