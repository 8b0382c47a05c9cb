package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// A callee offers all that CONFORMANCE.md asks for.
type callee struct{ runs atomic.Int64 }

func (c *callee) work(w http.ResponseWriter, r *http.Request) {
	var in struct{ Refuse, Fail, Slow bool }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	switch {
	case in.Slow:
		time.Sleep(slowFor) // what the contract calls slow
	case in.Refuse:
		http.Error(w, "refused", http.StatusPaymentRequired)
		return
	case in.Fail:
		http.Error(w, "failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/things/1")
	w.Header().Set("Set-Cookie", "session=1")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"run":%d}`, c.runs.Add(1))
}

const slowFor = 1500 * time.Millisecond // on a busy machine a request beside it takes half a second

func undo(w http.ResponseWriter, r *http.Request) {
	if _, err := server.Barrier(r.Context()); err != nil {
		http.Error(w, "no barrier", http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte("undone"))
}

func bearer(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }

// newCallee returns a guarded service over a store in memory.
func newCallee(t *testing.T) http.Handler {
	t.Helper()
	return newCalleeOf(t, server.Route{Effect: server.Transactional})
}

// newCalleeOf returns the same with the given kind of route for its work.
func newCalleeOf(t *testing.T, work server.Route) http.Handler {
	t.Helper()
	guard, err := server.NewGuard(memstore.New(), bearer, server.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, guard.Shutdown(context.Background())) })
	mux, c := http.NewServeMux(), new(callee)
	for path, route := range map[string]struct {
		route   server.Route
		handler http.HandlerFunc
	}{
		"/work": {work, c.work}, "/other": {server.Route{Effect: server.Keyed}, c.work},
		"/undo": {server.Route{Effect: server.Transactional}, undo}, "/opaque": {server.Route{Effect: server.Opaque}, c.work},
	} {
		guarded, err := guard.Route(route.route, route.handler)
		require.NoError(t, err)
		mux.Handle(path, guarded)
	}
	return mux
}

// calleeFlags tell the command what the callee offers.
func calleeFlags(url string) []string {
	return []string{
		"-url", url, "-path", "/work", "-other-path", "/other", "-other-method", "PUT", "-undo", "/undo", "-opaque", "/opaque",
		"-body", `{}`, "-refused", `{"refuse":true}`, "-failing", `{"fail":true}`, "-slow", `{"slow":true}`,
		"-auth", "Authorization: Bearer a", "-other-auth", "Authorization: Bearer b",
	}
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
