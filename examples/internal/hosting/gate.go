package hosting

import (
	"net/http"
	"sync/atomic"
)

// A gate answers 503 until a service is put behind it, and fails the readiness
// check again once the process drains.
type gate struct {
	service  atomic.Pointer[Service]
	draining atomic.Bool
}

func (g *gate) open(s Service) { g.service.Store(&s) }

// drain makes the readiness check fail. Requests still pass until the
// listener closes.
func (g *gate) drain() { g.draining.Store(true) }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := g.service.Load()
	if s == nil || g.draining.Load() && r.URL.Path == "/healthz" {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	(*s).ServeHTTP(w, r)
}
