package readme

import (
	"errors"
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
	err = errors.Join(
		server.Handle(mux, guard, inventoryapi.Reserve, server.Transactional, reserve),
		server.Handle(mux, guard, inventoryapi.Release, server.Transactional, release),
	)
	return mux, guard, err
}
