package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func ExampleNew() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	charges := 0
	charge, err := guard.Handler(server.Opaque, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charges++
		fmt.Fprint(w, "charge ", charges)
	}))
	if err != nil {
		panic(err)
	}
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(`{"amount":500}`))
		r.Header.Set("Idempotency-Key", "order-1042")
		w := httptest.NewRecorder()
		charge.ServeHTTP(w, r)
		fmt.Println(w.Body, w.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// charge 1 false
	// charge 1 true
}

// The writes of a run and its answer happen together, or not at all.
func ExampleTx() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	stock, tries := 3, 0
	reserve, err := guard.Handler(server.Transactional, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tries++
		err := memstore.Tx(r.Context()).Do(func() { stock-- })
		if err != nil || tries == 1 {
			http.Error(w, "try again", http.StatusInternalServerError) // rolls back
			return
		}
		fmt.Fprint(w, "reserved")
	}))
	if err != nil {
		panic(err)
	}
	for range 3 {
		r := httptest.NewRequest(http.MethodPost, "/reservations", nil)
		r.Header.Set("Idempotency-Key", "order-1042")
		w := httptest.NewRecorder()
		reserve.ServeHTTP(w, r)
		fmt.Println(w.Code, "stock", stock)
	}
	// Output:
	// 500 stock 3
	// 200 stock 2
	// 200 stock 2
}

func ExampleTransaction_Do() {
	err := memstore.Tx(context.Background()).Do(func() { fmt.Println("never") })
	fmt.Println(errors.Is(err, memstore.ErrNoTx))
	// Output: true
}

// A test can make its handler run a second time.
func ExampleTransaction_Doom() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	runs := 0
	handler, err := guard.Handler(server.Transactional, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if runs++; runs == 1 {
			_ = memstore.Tx(r.Context()).Doom()
		}
		fmt.Fprint(w, "run ", runs)
	}))
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("Idempotency-Key", "order-1042")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
	// Output: 200 run 2
}

// With its own clock a test can end a lease without waiting.
func ExampleNewWith() {
	now := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	s, err := memstore.NewWith(memstore.Config{Now: func() time.Time { return now }})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	req := store.ClaimRequest{ID: store.ID{1}, Token: store.Token{1}, Effect: store.Keyed, Lease: 30 * time.Second, Keep: time.Hour}
	first, _, err := s.Claim(ctx, req)
	if err != nil {
		panic(err)
	}
	now = now.Add(30 * time.Second)
	req.Token = store.Token{2}
	second, won, err := s.TakeOver(ctx, req, first.Fence)
	fmt.Println(won, second.Fence, second.RecoveryAttempts, err)
	// Output: true 2 1 <nil>
}
