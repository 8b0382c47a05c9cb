package observe

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/retry/retryotel"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagaotel"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardotel"
	"github.com/fanonce/fanonce/server/guardprom"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/memstore"
)

// A registry gathers the names of a real run: metric → labels.
type registry struct {
	*prometheus.Registry
	provider *sdkmetric.MeterProvider // exports to it
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(r))
	require.NoError(t, err)
	return &registry{r, sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))}
}

// relabelled is the rule of README.md that gives guardotel's labels the names of guardprom's.
var relabelled = regexp.MustCompile("^fanonce_(guard|store|route|event|state|reason|read)$")

// exported returns the names that a query can use: a histogram has several. The first scrape only asks the databases, so it
// waits until metrics with the given names are there.
func (r *registry) exported(t *testing.T, want ...string) (names map[string][]string) {
	t.Helper()
	require.Eventually(t, func() bool {
		names = r.names(t)
		return !slices.ContainsFunc(want, func(name string) bool { return names[name] == nil })
	}, time.Minute, time.Millisecond)
	return names
}

func (r *registry) names(t *testing.T) map[string][]string {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	names := make(map[string][]string)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "fanonce_") {
			continue
		}
		var labels []string
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				label := relabelled.ReplaceAllString(l.GetName(), "$1")
				if !strings.HasPrefix(label, "otel_") && !slices.Contains(labels, label) {
					labels = append(labels, label)
				}
			}
		}
		slices.Sort(labels)
		if f.GetMetric()[0].GetHistogram() != nil {
			for _, part := range []string{"_bucket", "_count", "_sum"} {
				names[f.GetName()+part] = labels
			}
			continue
		}
		names[f.GetName()] = labels
	}
	return names
}

// ofStore are metrics of each question to a store.
var ofStore = []string{"fanonce_store_up", "fanonce_store_size_bytes", "fanonce_store_records"}

var charge = contract.Post[int, int]("payment", "charge", "/charges")

// pay makes the calls of a service: a run, a replay, a mismatch and a wait, over a real socket.
func pay(t *testing.T, observer server.Observer, store *memstore.Store, client retry.Config) *sdk.Client {
	t.Helper()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{Observer: observer})
	require.NoError(t, err)
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, charge, server.Keyed, func(_ context.Context, cents int) (int, error) {
		time.Sleep(50 * time.Millisecond) // so that the second call meets the run, and waits
		return cents, nil
	}))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	c, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {URL: s.URL}}, Retry: client})
	require.NoError(t, err)
	ctx := childkey.NewContext(t.Context(), childkey.MustParse("order-1"))
	waits := make(chan error)
	go func() {
		_, err := sdk.Call(ctx, c, charge, 1300)
		waits <- err
	}()
	_, err = sdk.Call(ctx, c, charge, 1300)
	require.NoError(t, err)
	require.NoError(t, <-waits)
	for _, body := range []string{"13", "1"} { // the second is refused with key-reused
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/charges", strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Idempotency-Key", "order-3")
		r.Header.Set("Content-Type", "application/json")
		resp, err := s.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	consume(t, guard)
	return c
}

// consume handles a message.
func consume(t *testing.T, guard *server.Guard) {
	t.Helper()
	mails, err := inbox.New(guard, inbox.Config{Consumer: "mails", Effect: server.Keyed})
	require.NoError(t, err)
	m := inbox.Message{Source: "orders", ID: "1", Published: time.Now().Add(-time.Second)}
	_, err = mails.Handle(t.Context(), m, func(context.Context, []byte) error { return nil })
	require.NoError(t, err)
}

// realRun returns the names that the OpenTelemetry modules export to Prometheus in a run of all of them.
func realRun(t *testing.T) map[string][]string {
	t.Helper()
	r, store := newRegistry(t), memstore.New()
	guard, err := guardotel.New(guardotel.Config{MeterProvider: r.provider, Store: store, StatsEvery: time.Hour})
	require.NoError(t, err)
	calls, err := retryotel.New(retryotel.Config{MeterProvider: r.provider})
	require.NoError(t, err)
	client := pay(t, guard, store, retry.Config{Observer: calls, Prepare: calls.Prepare})
	sagas, err := sagaotel.New(sagaotel.Config{MeterProvider: r.provider})
	require.NoError(t, err)
	checkout := saga.MustDefine("checkout", 1, func(b *saga.Builder[int, int]) {
		saga.Return(b, saga.Step(b, charge, b.Input()).Output())
	})
	engine, err := saga.Open(t.Context(), memjournal.New(), saga.Config{
		Definitions: []saga.AnyDefinition{checkout}, Client: client, Observer: sagas,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close(context.Background()) })
	require.NoError(t, sagas.Watch(engine))
	_, err = checkout.Run(t.Context(), engine, childkey.MustParse("order-2"), 1300)
	require.NoError(t, err)
	return r.exported(t, append(ofStore, "fanonce_saga_journal_up")...)
}

// guardprom exports the names that guardotel has behind the exporter, and its labels without "fanonce_": one dashboard serves
// both.
func TestNames_agree(t *testing.T) {
	t.Parallel()
	r, store := newRegistry(t), memstore.New()
	metrics, err := guardprom.New(guardprom.Config{Store: store, StatsEvery: time.Hour})
	require.NoError(t, err)
	r.MustRegister(metrics)
	pay(t, metrics, store, retry.Config{})
	direct, exporter := r.exported(t, ofStore...), realRun(t)
	require.NotEmpty(t, direct)
	for name, labels := range direct {
		require.Equal(t, exporter[name], labels, name)
	}
	for name := range exporter {
		if strings.HasPrefix(name, "fanonce_guard_") || strings.HasPrefix(name, "fanonce_store_") {
			require.Contains(t, direct, name)
		}
	}
}

var (
	metricName = regexp.MustCompile(`\bfanonce_(?:guard|store|saga|retry)_[a-z_0-9]+\b`)
	labelName  = regexp.MustCompile(`[{,]\s*([a-z_]+)\s*(?:=~|=|!=)"|\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)
	grouping   = regexp.MustCompile(`by \(([^)]*)\)`)
	recorded   = regexp.MustCompile(`(?m)^\s*- record: (\S+)`)
)

// queries are the texts of the dashboard and the alerts.
func queries(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, file := range []string{"dashboard.json", "alerts.yml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		texts[file] = strings.ReplaceAll(string(text), `\"`, `"`)
	}
	return texts
}

// Each metric and label that the dashboard and the alerts use is exported by a real run.
func TestNames(t *testing.T) {
	t.Parallel()
	exported := realRun(t)
	labels := []string{"__name__", "le", "job"} // the job is Prometheus' own
	for _, of := range exported {
		labels = append(labels, of...)
	}
	for file, text := range queries(t) {
		used := 0
		for _, name := range metricName.FindAllString(text, -1) {
			if slices.Contains(labels, name) {
				continue
			}
			used++
			require.Contains(t, exported, name, file)
		}
		require.Greater(t, used, 10, "metrics in %s", file)
		for _, m := range labelName.FindAllStringSubmatch(text, -1) {
			require.Contains(t, labels, m[1]+m[2], file)
		}
		for _, m := range grouping.FindAllStringSubmatch(text, -1) {
			for label := range strings.SplitSeq(m[1], ",") {
				require.Contains(t, labels, strings.TrimSpace(label), file)
			}
		}
	}
}

var matched = regexp.MustCompile(`\b(event|reason|fanonce_saga_status)=~?"([^"$*]*)"`)

// Each value that a query selects by is one that the library exports. An alert on another value would never fire.
func TestNames_values(t *testing.T) {
	t.Parallel()
	exported := map[string][]string{"reason": reasons(t)}
	for kind := server.EventMiss; kind.String() != "event"; kind++ {
		exported["event"] = append(exported["event"], kind.String())
	}
	for status := journal.Running; !slices.Contains(exported["fanonce_saga_status"], status.String()) && status < 64; status++ {
		exported["fanonce_saga_status"] = append(exported["fanonce_saga_status"], status.String())
	}
	for file, text := range queries(t) {
		selections := matched.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, selections, file)
		for _, m := range selections {
			for value := range strings.SplitSeq(m[2], "|") {
				require.Contains(t, exported[m[1]], value, "%s: %s", file, m[0])
			}
		}
	}
}

// reasons are the values of the gauge of keys that need a person.
func reasons(t *testing.T) (values []string) {
	t.Helper()
	r := newRegistry(t)
	metrics, err := guardprom.New(guardprom.Config{Store: memstore.New()})
	require.NoError(t, err)
	r.MustRegister(metrics)
	r.exported(t, "fanonce_store_attention")
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "fanonce_store_attention" {
			for _, m := range f.GetMetric() {
				values = append(values, m.GetLabel()[0].GetValue()) // the other one is the store
			}
		}
	}
	return values
}

// Grafana reads the dashboard: it is JSON, and its panels have numbers and queries of their own.
func TestDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var board struct {
		Title  string
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	require.Equal(t, "fanonce", board.Title)
	seen := make(map[int]bool)
	for _, p := range board.Panels {
		require.False(t, seen[p.ID], "panel %q has the number of another", p.Title)
		seen[p.ID] = true
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.NotEmpty(t, target.Expr, p.Title)
		}
	}
	require.NotEmpty(t, recorded.FindAllString(queries(t)["alerts.yml"], -1))
}
