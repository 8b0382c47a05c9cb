package readme

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server/pgstore"
)

// OpenStore opens the callee's store, and brings its tables up to date.
func OpenStore(ctx context.Context, databaseURL string, cfg pgstore.Config) (*pgstore.Store, error) {
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if err := pgstore.Migrate(ctx, pool); err != nil { // or pgstore.Migrations, by a tool of yours
		return nil, err
	}
	return pgstore.Open(ctx, pool.Config(), cfg)
}

// NewClient returns the caller's client: one for a program. token is what Inventory
// knows it by.
func NewClient(inventoryURL, paymentURL, token string) (*sdk.Client, error) {
	who := http.Header{"Authorization": {"Bearer " + token}}
	return sdk.New(sdk.Config{Services: map[string]sdk.Service{
		"inventory": {URL: inventoryURL, Header: who},
		"payment":   {URL: paymentURL, Header: who}, // guarded too; else set Profile: retry.Stripe(), Adyen, your own
	}})
}
