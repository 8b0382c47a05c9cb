package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// An introduction brings a Codec into a service whose records are in plain text. First all processes get it with
// storePlain: then each reads what the others store. Then all get it without.
type introduction struct {
	server.Codec
	storePlain bool
}

func (i introduction) Seal(plain, associated []byte) ([]byte, error) {
	if i.storePlain {
		return plain, nil
	}
	return i.Codec.Seal(plain, associated)
}

// OpenPlain accepts records in plain text. Take it out after AuditRetention: then the last of them is gone.
func (introduction) OpenPlain(stored []byte) ([]byte, error) { return stored, nil }

// Records from before there was a Codec are still replayed.
func ExampleCodec() {
	codec, err := server.NewAESGCM(server.AESKey{ID: "2026", Secret: make([]byte, server.AESKeyBytes)})
	if err != nil {
		panic(err)
	}
	store := memstore.New()
	for _, cfg := range []server.Config{{}, {Codec: introduction{codec, true}}, {Codec: introduction{codec, false}}} {
		guard, err := server.NewGuard(store, server.Unscoped, cfg)
		if err != nil {
			panic(err)
		}
		payments, err := guard.Handler(server.Keyed, pay())
		if err != nil {
			panic(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("amount=5"))
		r.Header.Set("Idempotency-Key", "order-1")
		w := httptest.NewRecorder()
		payments.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body, w.Header().Get(wire.HeaderReplayed))
	}
	// Output:
	// 200 {"payment":1} false
	// 200 {"payment":1} true
	// 200 {"payment":1} true
}

// firstSentFromKey says when a request was first sent, for callers that make a UUIDv7 key at that moment.
func firstSentFromKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _, err := wire.ParseKeyHeader(r.Header.Values(wire.HeaderKey))
		if t, ok := key.V7Time(); err == nil && ok && r.Header.Get(wire.HeaderFirstSent) == "" {
			r.Header.Set(wire.HeaderFirstSent, wire.FormatFirstSent(t))
		}
		next.ServeHTTP(w, r)
	})
}

// A key that holds its time is refused once it is older than the answers that are kept.
func Example_firstSentFromKey() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	payments, err := guard.Handler(server.Keyed, pay())
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("amount=5"))
	r.Header.Set("Idempotency-Key", "0190163d-8694-739b-aea5-966c26f8ad91") // made in June 2024
	w := httptest.NewRecorder()
	firstSentFromKey(payments).ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Idempotency-Code"))
	// Output: 412 key-expired
}
