// Inventory guards a handler whose effects are in Postgres.
package main

import (
	"context"
	"log"
	"log/slog"
	"net/http"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/readme/shopapi"
	"github.com/fanonce/fanonce/examples/readme/undo"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

func reserve(ctx context.Context, line shopapi.Line) (hold shopapi.Hold, err error) {
	key, _ := childkey.FromContext(ctx) // every guarded handler has a key
	err = pgstore.Tx(ctx).QueryRow(ctx, "insert into holds (key, sku) values ($1, $2) returning id",
		key.String(), line.SKU).Scan(&hold.ID)
	return hold, err
}

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	check(pgstore.Migrate(ctx, pool, "")) // "": the default schema
	_, err = pool.Exec(ctx, "create table if not exists holds (id serial, key text primary key, sku text)")
	check(err)
	store, err := pgstore.Open(ctx, pool.Config(), pgstore.Config{})
	check(err)
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{Namespace: "inventory", Logger: slog.Default()})
	check(err)
	go guard.RunSweeper(ctx) // deletes records past their retention
	mux := http.NewServeMux()
	check(server.Handle(mux, guard, shopapi.Reserve, server.Transactional, reserve))
	check(undo.Handle(mux, guard)) // see "Undo a call"
	check(http.ListenAndServe("localhost:8080", mux))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
