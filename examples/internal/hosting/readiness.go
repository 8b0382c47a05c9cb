package hosting

import (
	"net/http"
	"sync/atomic"
)

// A readiness answers 503 until a service is put behind it, and fails the readiness
// check again once the process drains.
type readiness struct {
	service  atomic.Pointer[Service]
	draining atomic.Bool
}

func (r *readiness) open(s Service) { r.service.Store(&s) }

// drain makes the readiness check fail. Requests still pass until the
// listener closes.
func (r *readiness) drain() { r.draining.Store(true) }

func (r *readiness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s := r.service.Load()
	if s == nil || r.draining.Load() && req.URL.Path == "/healthz" {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	(*s).ServeHTTP(w, req)
}
