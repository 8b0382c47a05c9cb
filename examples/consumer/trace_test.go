package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A payment is one trace: what the ledger does with the message is below the shop's run that wrote it, although a job and a
// broker are between them.
func TestTrace(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, at *place) {
		spans := tracetest.NewInMemoryExporter()
		traces := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var running sync.WaitGroup
		start := func(command func(context.Context, *options) error) (ready string) {
			out, in := io.Pipe()
			o := at.options()
			o.listen, o.out, o.traces = "127.0.0.1:0", in, traces
			running.Go(func() {
				_ = command(ctx, o)
				_ = in.Close()
			})
			lines := bufio.NewScanner(out)
			require.True(t, lines.Scan())
			return lines.Text()
		}
		address := strings.TrimPrefix(start(shop), "ready on ")
		start(ledger)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/payments", strings.NewReader(`{"Account":"ann","Cents":1300}`))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", `"order-1"`)
		req.Header.Set("Content-Type", "application/json")
		web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := web.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		at.untilBooked(t, 1)
		stop()
		running.Wait()

		wrote, got, booked := spanOf(t, spans, "run POST /payments"), spanOf(t, spans, "guard inbox ledger"), spanOf(t, spans, "run inbox ledger")
		require.Equal(t, wrote.SpanContext.TraceID(), booked.SpanContext.TraceID())
		require.Equal(t, got.SpanContext.SpanID(), booked.Parent.SpanID())
		require.Equal(t, wrote.SpanContext.SpanID(), got.Parent.SpanID())
		require.True(t, got.Parent.IsRemote())
	})
}

func spanOf(t *testing.T, spans *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	for _, s := range spans.GetSpans() {
		if s.Name == name {
			return s
		}
	}
	require.FailNow(t, "no span", name)
	return tracetest.SpanStub{}
}
