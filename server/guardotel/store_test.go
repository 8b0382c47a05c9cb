package guardotel_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardotel"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A hanging store is behind a broken network: nothing that a scrape asks comes back.
type hanging struct{ store.Store }

func (hanging) Stats(ctx context.Context) (store.Stats, error) {
	<-ctx.Done()
	return store.Stats{}, ctx.Err()
}

func (h hanging) Reader() store.Reader { return hangingReader{h.Store.Reader()} }

type hangingReader struct{ store.Reader }

func (hangingReader) Attention(ctx context.Context) (store.Attention, error) {
	<-ctx.Done()
	return store.Attention{}, ctx.Err()
}

func (hangingReader) Estimate(ctx context.Context) (store.Estimate, error) {
	<-ctx.Done()
	return store.Estimate{}, ctx.Err()
}

// A store that does not answer lets no reading wait, although the exporter for Prometheus sets no time limit. It is down
// then. Close ends the questions, and nothing of them is left.
func TestMetrics_storeHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, hanging{memstore.New()})
		start := time.Now()
		got, _ := l.numbers(t)
		require.NotContains(t, got, "fanonce.store.up{fanonce.store=a}", "nothing is known yet")
		require.Zero(t, time.Since(start))
		time.Sleep(10 * time.Second)
		start = time.Now()
		got, _ = l.numbers(t)
		require.Zero(t, time.Since(start))
		require.Contains(t, got, "fanonce.store.up{fanonce.store=a}")
		require.Zero(t, got["fanonce.store.up{fanonce.store=a}"])
		require.NotContains(t, got, "fanonce.store.async_standbys{fanonce.store=a}")
		require.NoError(t, l.observe.Close())
		require.Zero(t, time.Since(start))
		got, _ = l.numbers(t)
		require.NotContains(t, got, "fanonce.store.up{fanonce.store=a}")
	}) // fails if a goroutine is left
}

// The observers of two stores in one process hide no number of each other, also if nobody named them.
func TestMetrics_twoStores(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	for n, keys := range []string{"abc", ""} {
		s := memstore.New()
		o, err := guardotel.New(guardotel.Config{MeterProvider: provider, Store: s})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, o.Close()) })
		g, err := server.NewGuard(s, server.Unscoped, server.Config{Observer: o})
		require.NoError(t, err)
		h, err := g.Route(server.Route{Name: "orders", Effect: server.Opaque}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
		}))
		require.NoError(t, err)
		for _, key := range keys {
			send(t.Context(), h, string(key)+string(rune('0'+n)), "tea")
		}
	}
	var unknown []float64
	require.Eventually(t, func() bool {
		unknown = readUnknown(t, reader)
		return len(unknown) == 2
	}, time.Minute, time.Millisecond)
	require.ElementsMatch(t, []float64{3, 0}, unknown)
}

// readUnknown returns how many keys are unknown, of each store.
func readUnknown(t *testing.T, reader *sdkmetric.ManualReader) (unknown []float64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			data, ok := m.Data.(metricdata.Gauge[float64])
			if !ok || m.Name != "fanonce.store.attention" {
				continue
			}
			for _, p := range data.DataPoints {
				if reason, _ := p.Attributes.Value("fanonce.reason"); reason.AsString() == "unknown" {
					unknown = append(unknown, p.Value)
				}
			}
		}
	}
	return unknown
}
