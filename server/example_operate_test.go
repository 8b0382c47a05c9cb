package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// This bank cannot deduplicate, but it can tell whether it made a transfer.
func ExampleGuard_Reconcile() {
	sent := make(map[string]bool) // the bank's book
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	wires, err := guard.Route(server.Route{
		Effect: server.Opaque,
		Name:   "wires",
		Reconcile: func(_ context.Context, rec store.Record) (server.Resolution, error) {
			if !sent[string(rec.Memo)] { // the parent key of the run identifies the transfer at the bank
				return server.NeverHappened(), nil
			}
			return server.Happened(server.Response{Status: http.StatusCreated, Body: []byte("sent")}), nil
		},
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _ := childkey.FromContext(r.Context())
		sent[key.String()] = true
		w.WriteHeader(http.StatusGatewayTimeout) // its answer was lost
	}))
	if err != nil {
		panic(err)
	}
	ask(wires, "/wires", "wire-7", "")
	resolved, err := guard.Reconcile(context.Background()) // by Guard.Sweep, every few minutes
	fmt.Println("resolved:", resolved, err)
	ask(wires, "/wires", "wire-7", "")
	// Output:
	// 504  replayed: false
	// resolved: 1 <nil>
	// 201 sent replayed: true
}

// A caller asks for the outcome of its key, and no handler runs.
func ExampleGuard_LookupHandler() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	orders, err := guard.Handler(server.Keyed, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}))
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders", orders)
	mux.Handle("GET /idempotency/{key}", guard.LookupHandler())
	lookup := func() {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/idempotency/order-1042?answer=1", http.NoBody))
		fmt.Printf("%d replayed: %q\n", w.Code, w.Header().Get(wire.HeaderReplayed))
	}
	lookup()
	ask(mux, "/orders", "order-1042", "")
	lookup()
	// Output:
	// 404 replayed: ""
	// 201  replayed: false
	// 201 replayed: "true"
}

// A service starts the sweeper beside its listener, and ends both together.
func ExampleGuard_RunSweeper() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	go guard.RunSweeper(context.Background())
	// … http.Server.ListenAndServe, until it is shut down
	fmt.Println(guard.Shutdown(context.Background())) // ends the sweeper, too
	// Output: <nil>
}
