package guardotel_test

import (
	"context"
	"fmt"
	"net/http"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardotel"
	"github.com/fanonce/fanonce/server/memstore"
)

func Example() {
	spans := tracetest.NewSpanRecorder() // in a service: an exporter
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))

	s := memstore.New()
	telemetry, err := guardotel.New(guardotel.Config{TracerProvider: provider, Store: s})
	if err != nil {
		panic(err)
	}
	defer telemetry.Close() //nolint:errcheck // the process ends
	guard, err := server.NewGuard(s, server.Unscoped, server.Config{Observer: telemetry})
	if err != nil {
		panic(err)
	}
	orders, err := guard.Route(server.Route{Name: "orders", Effect: server.Keyed}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err != nil {
		panic(err)
	}
	send(context.Background(), orders, "order-1", "tea")
	send(context.Background(), orders, "order-1", "tea")
	for _, span := range spans.Ended() {
		fmt.Println(span.Name(), attr(span, "fanonce.outcome"), len(span.Links()), "links")
	}
	// Output:
	// run orders  0 links
	// guard orders miss 0 links
	// guard orders hit 1 links
}
