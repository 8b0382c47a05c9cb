// Checkout places an order in two services, in one guarded handler.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fanonce/fanonce/examples/readme/shopapi"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

type shop struct{ client *sdk.Client }

func (s shop) place(ctx context.Context, order shopapi.Order) (receipt shopapi.Receipt, err error) {
	fan := s.client.Fanout(ctx) // a killed shop forgets its own keys, which are in memory, and sends these again
	sdk.Add(fan, shopapi.Reserve, order.Line)
	charge := sdk.Add(fan, shopapi.Charge, order.Payment)
	err = fan.Wait()
	if err == nil {
		return charge.Get(ctx)
	}
	if !sdk.Resumable(err) { // refused for good: take back what the others did, and say why
		if failed := fan.Undo(ctx); failed == nil {
			return receipt, refusal(err)
		}
	}
	// A 503 is not stored: a retry runs place again, with the same child keys.
	return receipt, &server.StatusError{Status: http.StatusServiceUnavailable, Err: err}
}

func refusal(err error) error {
	if e := sdk.RefusalOf(err); e != nil && e.Code != "" {
		if _, known := e.Code.Situation(); !known { // the service's own word, such as card-declined, and not key-reused
			return &server.StatusError{Status: e.Status, Code: string(e.Code), Detail: e.Detail}
		}
	}
	return server.Refuse(http.StatusUnprocessableEntity, "order-refused", "The order cannot be placed.")
}

func main() {
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{
		"inventory": {URL: "http://localhost:8080"}, "payment": {URL: "http://localhost:8081"},
	}}) // a Service has a HeaderFunc, for an Authorization
	check(err)
	// In memory: a shop that was killed runs the order again, and inventory and payment answer its calls as before. With a
	// pgstore.Store it also replays its own answers, and several shops can run beside each other.
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{Namespace: "shop"})
	check(err)
	mux := http.NewServeMux()
	server.MustHandle(mux, guard, shopapi.Place, server.Keyed, shop{client}.place)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	web := &http.Server{Addr: "localhost:8090", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	check(guard.Serve(ctx, web, server.Stop{}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
