package readme

import (
	"context"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/examples/readme/inventoryapi"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// Inventory serves reservations. Each key reserves once, and each repeat gets
// the first answer. tenants are the callers, by what they authenticate with.
func Inventory(store *pgstore.Store, tenants map[string]string) (http.Handler, *server.Guard, error) {
	tenant := func(r *http.Request) (string, error) { // whose keys they are; "" is refused with 401
		return tenants[r.Header.Get("Authorization")], nil
	}
	guard, err := server.NewGuard(store, tenant, server.Config{
		Namespace: "inventory", HandlerTimeout: 15 * time.Second, // see stop
	})
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	err = server.Handle(mux, guard, inventoryapi.Reserve, server.Transactional, reserve)
	return mux, guard, err
}

// reserve's row and the stored answer commit together, or not at all.
func reserve(ctx context.Context, in inventoryapi.Line) (hold inventoryapi.Hold, err error) {
	err = pgstore.Tx(ctx).QueryRow(ctx,
		"insert into holds (sku, count) values ($1, $2) returning id::text", in.SKU, in.Count).Scan(&hold.ID)
	return hold, err
}
