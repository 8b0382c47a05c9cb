package server_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

func benchRequest(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/orders", http.NoBody)
	r.Header.Set(wire.HeaderKey, key)
	return r
}

func BenchmarkHandler(b *testing.B) {
	handler := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"ok":true}`)) }
	b.Run("unguarded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			handler(httptest.NewRecorder(), benchRequest("k"))
		}
	})
	for _, effect := range []server.Effect{server.Transactional, server.Keyed} {
		b.Run("first "+effect.String(), func(b *testing.B) {
			h := newRoute(b, newGuard(b, memstore.New(), server.Config{}), effect, handler)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h.ServeHTTP(httptest.NewRecorder(), benchRequest(strconv.Itoa(i)))
			}
		})
	}
	b.Run("replay", func(b *testing.B) {
		h := newRoute(b, newGuard(b, memstore.New(), server.Config{}), server.Keyed, handler)
		b.ReportAllocs()
		for b.Loop() {
			h.ServeHTTP(httptest.NewRecorder(), benchRequest("k"))
		}
	})
}
