package server_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

const (
	benchBody   = `{"sku":"A-1042","count":3,"warehouse":"north","note":"leave it at the door, please"}`
	benchAnswer = `{"id":"9f1c2d3e4b5a69788796a5b4c3d2e1f0"}`
)

// benchExchange is a request and its response writer. It is reused, so that the
// costs of net/http and httptest are not measured.
type benchExchange struct {
	request *http.Request
	body    bytes.Reader
	header  http.Header
	status  int
}

func newBenchExchange() *benchExchange {
	x := &benchExchange{header: make(http.Header)}
	x.request = &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: "/orders"}, RequestURI: "/orders", Pattern: "POST /orders",
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(&x.body),
	}
	return x
}

func (x *benchExchange) Header() http.Header         { return x.header }
func (x *benchExchange) WriteHeader(status int)      { x.status = status }
func (x *benchExchange) Write(b []byte) (int, error) { return len(b), nil }

func (x *benchExchange) send(b *testing.B, h http.Handler, key, body string, want int) {
	b.Helper()
	clear(x.header)
	x.body.Reset([]byte(body))
	x.request.ContentLength = int64(len(body))
	x.request.Header[wire.HeaderKey] = []string{key}
	h.ServeHTTP(x, x.request)
	if x.status != want {
		b.Fatalf("status %d, want %d", x.status, want)
	}
}

// benchHandler does the least work of a handler: it reads and answers.
func benchHandler(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, benchAnswer)
}

// BenchmarkHandler measures the cost of a guard without its store and net/http:
// the store is a map.
func BenchmarkHandler(b *testing.B) {
	b.Run("unguarded", func(b *testing.B) {
		x := newBenchExchange()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			x.send(b, http.HandlerFunc(benchHandler), strconv.Itoa(i), benchBody, http.StatusCreated)
		}
	})
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		b.Run("first "+effect.String(), func(b *testing.B) {
			h := newRoute(b, newGuard(b, memstore.New(), server.Config{}), effect, benchHandler)
			x := newBenchExchange()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.send(b, h, strconv.Itoa(i), benchBody, http.StatusCreated)
			}
		})
	}
	duplicates := []struct {
		name   string
		cfg    server.Config
		body   string
		status int
	}{
		{"replay", server.Config{}, benchBody, http.StatusCreated},
		{"replay from the cache", server.Config{CacheBytes: 1 << 20}, benchBody, http.StatusCreated},
		{"mismatch", server.Config{}, "{}", http.StatusUnprocessableEntity},
	}
	for _, d := range duplicates {
		b.Run(d.name, func(b *testing.B) {
			h := newRoute(b, newGuard(b, memstore.New(), d.cfg), server.Keyed, benchHandler)
			x := newBenchExchange()
			x.send(b, h, "k", benchBody, http.StatusCreated)
			b.ReportAllocs()
			for b.Loop() {
				x.send(b, h, "k", d.body, d.status)
			}
		})
	}
}

// BenchmarkHandler_inProgress measures a duplicate that may not wait.
func BenchmarkHandler_inProgress(b *testing.B) {
	started, finish := make(chan struct{}), make(chan struct{})
	h := newRoute(b, newGuard(b, memstore.New(), server.Config{Wait: -1}), server.Keyed, func(http.ResponseWriter, *http.Request) {
		close(started)
		<-finish
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		newBenchExchange().send(b, h, "k", benchBody, http.StatusOK)
	}()
	<-started
	x := newBenchExchange()
	b.ReportAllocs()
	for b.Loop() {
		x.send(b, h, "k", benchBody, http.StatusConflict)
	}
	close(finish)
	<-ended
}

// BenchmarkDo measures the same for a function, whose answer is a string of 200 bytes.
func BenchmarkDo(b *testing.B) {
	answer := strings.Repeat("x", 200)
	task := server.Task{Name: "book", Scope: "acme", Effect: server.Keyed}
	do := func(b *testing.B, g *server.Guard, key string, want bool) {
		b.Helper()
		out, replayed, err := server.Do(b.Context(), g, task, childkey.MustParse(key), 1, func(context.Context, int) (string, error) { return answer, nil })
		if err != nil || out != answer || replayed != want {
			b.Fatalf("replayed %v: %v", replayed, err)
		}
	}
	b.Run("first", func(b *testing.B) {
		g := newGuard(b, memstore.New(), server.Config{})
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			do(b, g, strconv.Itoa(i), false)
		}
	})
	for name, cfg := range map[string]server.Config{"replay": {}, "replay from the cache": {CacheBytes: 1 << 20}} {
		b.Run(name, func(b *testing.B) {
			g := newGuard(b, memstore.New(), cfg)
			do(b, g, "k", false)
			b.ReportAllocs()
			for b.Loop() {
				do(b, g, "k", true)
			}
		})
	}
}
