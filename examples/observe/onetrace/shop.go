package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/retry/retryotel"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/saga/sagaotel"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
)

// The operations of the four services.
var (
	place   = contract.Post[int, int]("shop", "place", "/orders")
	reserve = contract.Post[int, int]("inventory", "reserve", "/reservations")
	release = contract.Post[contract.Undo[int, int], struct{}]("inventory", "release", "/releases")
	charge  = contract.Post[int, int]("payment", "charge", "/charges")
	book    = contract.Post[int, int]("shipping", "book", "/bookings")
)

var checkout = saga.MustDefine("checkout", 1, func(b *saga.Builder[int, int]) {
	hold := saga.Step(b, reserve, b.Input()).Undo(release)
	paid := saga.Step(b, charge, hold.Output()).Pivot()
	saga.Return(b, saga.Step(b, book, paid.Output()).Retriable().Output())
})

// client returns a client of services whose calls are traced.
func (t *telemetry) client(services map[string]string, transport http.RoundTripper) (*sdk.Client, error) {
	calls, err := retryotel.New(retryotel.Config{TracerProvider: t.provider})
	if err != nil {
		return nil, err
	}
	all := make(map[string]sdk.Service)
	for name, url := range services {
		all[name] = sdk.Service{URL: url}
	}
	return sdk.New(sdk.Config{Services: all, Retry: retry.Config{
		Observer: calls, Prepare: calls.Prepare, Transport: transport, Backoff: retry.Backoff{Base: 200 * time.Millisecond},
	}})
}

// A shop runs the saga of an order in its guarded handler.
type shop struct{ engine *saga.Engine }

func (s *shop) place(ctx context.Context, order int) (int, error) {
	key, ok := childkey.FromContext(ctx)
	if !ok {
		return 0, errors.New("no key")
	}
	return checkout.Run(ctx, s.engine, key, order)
}

// openShop adds the routes of a shop to mux.
func openShop(ctx context.Context, cfg config, t *telemetry, guard *server.Guard, mux *http.ServeMux) error {
	client, err := t.client(map[string]string{
		"inventory": cfg.Inventory, "payment": cfg.Payment, "shipping": cfg.Shipping,
	}, nil)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, cfg.Database)
	if err != nil {
		return err
	}
	if err = pgjournal.Migrate(ctx, pool, ""); err != nil {
		return err
	}
	journal, err := pgjournal.Open(ctx, pool.Config(), pgjournal.Config{AllowNonDurable: true})
	if err != nil {
		return err
	}
	sagas, err := sagaotel.New(sagaotel.Config{TracerProvider: t.provider})
	if err != nil {
		return err
	}
	engine, err := saga.Open(ctx, journal, saga.Config{
		Definitions: []saga.AnyDefinition{checkout}, Client: client, Observer: sagas,
		Lease: 600 * time.Millisecond, Poll: 50 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	return server.Handle(mux, guard, place, server.Keyed, (&shop{engine}).place)
}
