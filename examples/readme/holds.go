package readme

import (
	"context"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/examples/readme/inventoryapi"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// reserve's row and the stored answer commit together, or not at all.
func reserve(ctx context.Context, in inventoryapi.Line) (hold inventoryapi.Hold, err error) {
	key, _ := childkey.FromContext(ctx) // a guarded handler's ctx has it
	err = pgstore.Tx(ctx).QueryRow(ctx,
		"insert into holds (key, sku, count) values ($1, $2, $3) returning id::text",
		key.String(), in.SKU, in.Count).Scan(&hold.ID)
	return hold, err
}

// release undoes the reserve that the request names, also if its answer was lost.
// A reserve that arrives after its release is refused.
func release(ctx context.Context, _ contract.Undo[inventoryapi.Line, inventoryapi.Hold]) (none struct{}, err error) {
	if fate, err := server.Barrier(ctx); err != nil || fate == server.NeverRan {
		return none, err
	}
	forward, _ := server.ForwardKey(ctx) // Barrier refuses a request without it
	_, err = pgstore.Tx(ctx).Exec(ctx, "delete from holds where key = $1", forward.String())
	return none, err
}
