package observe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/retry/retryotel"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagaotel"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardotel"
	"github.com/fanonce/fanonce/server/memstore"
)

var place = contract.Post[int, int]("shop", "place", "/orders")

// serveTraced serves an operation under a guard of its own, in the traces of its callers, as otelhttp does.
func serveTraced(t *testing.T, traces *sdktrace.TracerProvider, op contract.Operation[int, int], handler func(context.Context, int) (int, error)) string {
	t.Helper()
	telemetry, err := guardotel.New(guardotel.Config{TracerProvider: traces})
	require.NoError(t, err)
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{Observer: telemetry})
	require.NoError(t, err)
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, op, server.Keyed, handler))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// An order goes from a client to the shop, and in its saga on to the payment. The spans of all three modules are one
// trace, and each is below the one that trace.svg shows above it. The same charge, sent again, links to the first run.
func TestTrace_oneOrder(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	calls, err := retryotel.New(retryotel.Config{TracerProvider: traces})
	require.NoError(t, err)
	newClient := func(service, url string) *sdk.Client {
		client, err := sdk.New(sdk.Config{
			Services: map[string]sdk.Service{service: {URL: url}}, Retry: retry.Config{Observer: calls, Prepare: calls.Prepare},
		})
		require.NoError(t, err)
		return client
	}
	payment := serveTraced(t, traces, charge, func(_ context.Context, cents int) (int, error) { return cents, nil })
	checkout := saga.MustDefine("checkout", 1, func(b *saga.Builder[int, int]) {
		saga.Return(b, saga.Step(b, charge, b.Input()).Pivot().Output())
	})
	sagas, err := sagaotel.New(sagaotel.Config{TracerProvider: traces})
	require.NoError(t, err)
	engine, err := saga.Open(t.Context(), memjournal.New(), saga.Config{
		Definitions: []saga.AnyDefinition{checkout}, Client: newClient("payment", payment), Observer: sagas,
	})
	require.NoError(t, err)
	shop := serveTraced(t, traces, place, func(ctx context.Context, cents int) (int, error) {
		key, _ := childkey.FromContext(ctx)
		return checkout.Run(ctx, engine, key, cents)
	})
	ctx, order := traces.Tracer("client").Start(t.Context(), "order")
	_, err = sdk.Call(childkey.NewContext(ctx, childkey.MustParse("order-1")), newClient("shop", shop), place, 1300)
	require.NoError(t, err)
	order.End()
	require.NoError(t, engine.Close(context.WithoutCancel(t.Context())))

	want := []string{
		"order", "call shop place", "attempt shop place", "guard POST /orders", "run POST /orders", "saga checkout",
		"step checkout payment.charge", "call payment charge", "attempt payment charge", "guard POST /charges", "run POST /charges",
	}
	var got []string
	for span := last(t, spans, "run POST /charges"); ; {
		require.Equal(t, order.SpanContext().TraceID(), span.SpanContext().TraceID(), span.Name())
		got = append(got, span.Name())
		if !span.Parent().IsValid() {
			break
		}
		i := slices.IndexFunc(spans.Ended(), func(s sdktrace.ReadOnlySpan) bool { return s.SpanContext().SpanID() == span.Parent().SpanID() })
		require.GreaterOrEqual(t, i, 0, "the parent of %s is no span", span.Name())
		span = spans.Ended()[i]
	}
	slices.Reverse(got)
	require.Equal(t, want, got)
}

// last returns the last span of that name.
func last(t *testing.T, spans *tracetest.SpanRecorder, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	for _, s := range slices.Backward(spans.Ended()) {
		if s.Name() == name {
			return s
		}
	}
	require.FailNow(t, "no span", name)
	return nil
}
