package clients

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// The second call is a retry by hand, after the client gave up: it has the same key.
func ExampleNewRetryableHTTP() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	var charges atomic.Int64
	handler, err := guard.Handler(server.Keyed, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "charge ", charges.Add(1))
	}))
	if err != nil {
		panic(err)
	}
	service := httptest.NewServer(handler)
	defer service.Close()
	client := NewRetryableHTTP()
	for range 2 {
		req, err := retryablehttp.NewRequest(http.MethodPost, service.URL, []byte(`{"amount":5}`))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Idempotency-Key", "order-1")
		resp, err := client.Do(ReadWhole(req))
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(resp.Body)
		fmt.Println(resp.StatusCode, string(body), resp.Header.Get("Idempotent-Replayed"))
	}
	// Output:
	// 200 charge 1 false
	// 200 charge 1 true
}
