// Inventory serves two typed operations, whose effects are rows of its Postgres.
package main

import (
	"context"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/examples/readme/shopapi"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

func reserve(ctx context.Context, line shopapi.Line) (hold shopapi.Hold, err error) {
	if line.SKU == "" {
		return hold, server.Refuse(http.StatusUnprocessableEntity, "no-sku", "Say what to reserve.")
	}
	key, _ := childkey.FromContext(ctx) // the key of this call: every guarded handler has one
	err = pgstore.Tx(ctx).QueryRow(ctx, "insert into holds (key, sku) values ($1, $2) returning id",
		key.String(), line.SKU).Scan(&hold.ID)
	return hold, err
}

// release undoes reserve, whether or not it has arrived.
func release(ctx context.Context, _ contract.Undo[shopapi.Line, shopapi.Hold]) (none struct{}, err error) {
	fate, err := server.Barrier(ctx) // a late copy of Reserve is refused from now on
	if err != nil || fate == server.NeverRan {
		return none, err
	}
	forward, _ := server.ForwardKey(ctx) // the key of the call to undo, under which it stored its row
	_, err = pgstore.Tx(ctx).Exec(ctx, "delete from holds where key = $1", forward.String())
	return none, err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := pgstore.OpenURL(ctx, os.Getenv("DATABASE_URL"), pgstore.Config{Migrate: true})
	check(err)
	defer store.Close()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{Namespace: "inventory", Logger: slog.Default()})
	check(err)
	mux := http.NewServeMux()
	server.MustHandle(mux, guard, shopapi.Reserve, server.Transactional, reserve)
	server.MustHandle(mux, guard, shopapi.Release, server.Transactional, release)
	web := &http.Server{Addr: "localhost:8080", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	check(guard.Serve(ctx, web, server.Stop{}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
