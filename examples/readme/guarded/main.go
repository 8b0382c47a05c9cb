// Guarded is a service with a handler of its own that a guard is put around.
package main

import (
	"context"
	"encoding/json"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// placeOrder is the handler as it was, but for its transaction, which is the guard's.
func placeOrder(w http.ResponseWriter, r *http.Request) {
	var order struct{ SKU string }
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, "no order", http.StatusBadRequest)
		return
	}
	tx := pgstore.Tx(r.Context()) // commits the order and the answer together
	var id int64
	err := tx.QueryRow(r.Context(), "insert into orders (sku) values ($1) returning id", order.SKU).Scan(&id)
	if err != nil {
		http.Error(w, "try again", http.StatusInternalServerError) // rolls back, is not stored
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]int64{"ID": id})
}

// tenant says whose key it is, from what your authentication found; "" is a 401. Two tenants may use the same key.
func tenant(r *http.Request) (string, error) { return r.Header.Get("X-Tenant"), nil }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := pgstore.OpenURL(ctx, os.Getenv("DATABASE_URL"), pgstore.Config{Migrate: true})
	check(err)
	defer store.Close()
	guard, err := server.NewGuard(store, tenant, server.Config{Logger: slog.Default()})
	check(err)
	orders, err := guard.Handler(server.Transactional, http.HandlerFunc(placeOrder))
	check(err)

	mux := http.NewServeMux()
	mux.Handle("POST /orders", orders)
	mux.Handle("GET /readyz", guard.ReadyHandler())
	web := &http.Server{Addr: "localhost:8070", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	check(guard.Serve(ctx, web, server.Stop{Drain: 5 * time.Second}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
