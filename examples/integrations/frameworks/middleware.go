package frameworks

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/cors"

	"github.com/fanonce/fanonce/server"
)

// Layers are the middlewares of a service around its guard, from the outermost to the innermost: each one sees what those
// before it let through. What must see every answer, replays too, is outside of the guard.
type Layers struct {
	Trace, RequestID, Recover, CORS, Compress, Authenticate func(http.Handler) http.Handler
}

// NewLayers returns the layers of an ordinary service. trace is the service's own, such as otelhttp.NewMiddleware.
func NewLayers(trace func(http.Handler) http.Handler) Layers {
	return Layers{
		Trace: trace, RequestID: middleware.RequestID, Recover: middleware.Recoverer,
		CORS: cors.Handler(cors.Options{
			AllowedOrigins: []string{"https://shop.example"}, AllowedMethods: []string{http.MethodPost},
			AllowedHeaders: []string{"Content-Type", "Idempotency-Key", "X-Tenant"},
		}),
		Compress:     middleware.Compress(5),
		Authenticate: authenticate,
	}
}

type tenantKey struct{}

// authenticate answers 401, or puts the tenant into the request's context.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Header.Get("X-Tenant") // a real service checks a token
		if name == "" {
			http.Error(w, "sign in", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenantKey{}, name)))
	})
}

// TenantOf is the guard's ScopeFunc: the tenant that [Layers.Authenticate] has found.
func TenantOf(r *http.Request) (string, error) {
	name, _ := r.Context().Value(tenantKey{}).(string)
	return name, nil // "" is a 401, also where the guard is outside of the authentication
}

// NewChiService returns a service of chi, with its guard directly around the handler.
func NewChiService(guard *server.Guard, l Layers, placeOrder http.Handler) (http.Handler, error) {
	orders, err := guard.Route(server.Route{Effect: server.Transactional, HandlerTimeout: 10 * time.Second}, placeOrder)
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.Method(http.MethodGet, "/readyz", guard.ReadyHandler())
	r.Group(func(r chi.Router) {
		r.Use(l.Trace, l.RequestID, l.Recover, l.CORS, l.Compress, l.Authenticate)
		r.Method(http.MethodPost, "/orders", orders)
	})
	return r, nil
}
