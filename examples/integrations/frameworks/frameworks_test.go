package frameworks

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/gorilla/mux"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// frameworks serve one guarded handler as POST /v1/orders. Each returns the address of a real server.
var frameworks = map[string]func(tb testing.TB, guarded http.Handler) (url string){
	"net/http": func(tb testing.TB, guarded http.Handler) string {
		m := http.NewServeMux()
		m.Handle("POST /v1/orders", guarded)
		return serve(tb, m)
	},
	"chi": func(tb testing.TB, guarded http.Handler) string {
		r := chi.NewRouter()
		r.Route("/v1", func(v1 chi.Router) { v1.Method(http.MethodPost, "/orders", guarded) })
		return serve(tb, r)
	},
	"gorilla": func(tb testing.TB, guarded http.Handler) string {
		r := mux.NewRouter()
		v1 := r.PathPrefix("/v1").Subrouter()
		v1.Handle("/orders", guarded).Methods(http.MethodPost)
		return serve(tb, r)
	},
	"echo": func(tb testing.TB, guarded http.Handler) string {
		e := echo.New()
		v1 := e.Group("/v1")
		v1.POST("/orders", echo.WrapHandler(guarded))
		return serve(tb, e)
	},
	"fiber": func(tb testing.TB, guarded http.Handler) string {
		app := fiber.New(fiber.Config{DisableStartupMessage: true})
		v1 := app.Group("/v1")
		v1.Post("/orders", adaptor.HTTPHandler(guarded))
		listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
		require.NoError(tb, err)
		served := make(chan error, 1)
		go func() { served <- app.Listener(listener) }()
		tb.Cleanup(func() {
			require.NoError(tb, app.Shutdown())
			require.NoError(tb, <-served)
		})
		return "http://" + listener.Addr().String()
	},
}

func serve(tb testing.TB, h http.Handler) string {
	tb.Helper()
	s := httptest.NewServer(h)
	tb.Cleanup(s.Close)
	return s.URL
}

// Under each framework a handler runs once for a key, its answer is replayed with its status, headers and bytes, another
// payload is refused, and the route has the name that the service gave it.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	for name, under := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int32
			var route atomic.Value
			guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{
				Observer: observer(func(e server.Event) { route.Store(e.Route) }),
			})
			require.NoError(t, err)
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				w.Header().Set("Content-Type", "text/plain")
				w.WriteHeader(http.StatusCreated)
				_, _ = fmt.Fprintf(w, "%s %d", body, runs.Add(1))
			})
			guarded, err := guard.Route(server.Route{Name: "POST /v1/orders", Effect: server.Keyed}, handler)
			require.NoError(t, err)
			url := under(t, guarded) + "/v1/orders"
			for _, replayed := range []string{"false", "true"} {
				status, body, header := post(t, url, "k", "tea")
				require.Equal(t, []any{http.StatusCreated, "tea 1"}, []any{status, body})
				require.Equal(t, []string{replayed, "text/plain"}, []string{header.Get("Idempotent-Replayed"), header.Get("Content-Type")})
			}
			status, body, header := post(t, url, "k", "other")
			require.Equal(t, http.StatusUnprocessableEntity, status, body)
			require.Equal(t, "key-reused", header.Get("Idempotency-Code"))
			status, _, _ = post(t, url, "", "tea")
			require.Equal(t, http.StatusBadRequest, status)
			require.Equal(t, int32(1), runs.Load())
			require.Equal(t, "POST /v1/orders", route.Load())
		})
	}
}

type observer func(server.Event)

func (o observer) Observe(_ context.Context, e server.Event) { o(e) }

func post(t *testing.T, url, key, body string) (status int, text string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(all), resp.Header
}

type line struct{ SKU string }

type hold struct{ ID string }

// A chi router takes typed operations as a ServeMux does, and finds their path values.
func TestHandle_onChi(t *testing.T) {
	t.Parallel()
	reserve := contract.Post[line, hold]("inventory", "reserve", "/shops/{shop}/lines")
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(t, err)
	r := chi.NewRouter()
	require.NoError(t, server.Handle(r, guard, reserve, server.Keyed, func(ctx context.Context, in line) (hold, error) {
		return hold{server.PathValue(ctx, "shop") + " " + in.SKU}, nil
	}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, serve(t, r)+"/shops/a/lines", strings.NewReader(`{"SKU":"tea"}`))
	require.NoError(t, err)
	request.Header.Set("Idempotency-Key", "k")
	request.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"ID":"a tea"}`, string(text))
}
