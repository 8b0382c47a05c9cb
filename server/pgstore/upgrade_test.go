package pgstore_test

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// records1 are records that the library of schema version 1 wrote.
//
//go:embed testdata/records_1.sql
var records1 string

// orderAnswer is the answer of the handler that made records1.
func orderAnswer(w http.ResponseWriter, key string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/orders/"+key)
	w.WriteHeader(orderStatus(key))
	_, _ = io.WriteString(w, orderBody(key)) // the guard's recorder takes all of it
}

func orderBody(key string) string { return `{"order":"` + key + `","total":1e2}` + "\x00\n" }

func orderStatus(key string) int {
	if key == "declined" {
		return http.StatusPaymentRequired
	}
	return http.StatusCreated
}

// newOrders starts a process of the service that made records1, over s; runs counts its runs.
func newOrders(t *testing.T, s *pgstore.Store, runs *atomic.Int32) *callee {
	t.Helper()
	guard, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	handler, err := guard.Handler(server.Keyed, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		key, _ := server.InboundKey(r.Context())
		orderAnswer(w, key.String())
	}))
	require.NoError(t, err)
	listener := httptest.NewServer(handler)
	t.Cleanup(func() {
		listener.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, guard.Shutdown(ctx))
	})
	return &callee{url: listener.URL}
}

func requireOrder(t *testing.T, key string, r reply, replayed bool) {
	t.Helper()
	require.Equal(t, orderStatus(key), r.status, "%s: %s", key, r.body)
	require.Equal(t, orderBody(key), r.body, key)
	require.Equal(t, "application/json", r.header.Get("Content-Type"), key)
	require.Equal(t, "/orders/"+key, r.header.Get("Location"), key)
	require.Equal(t, replayed, r.replayed, key)
}

// Rows that an earlier version wrote are there after the upgrade. A completed key is replayed byte for byte, and does
// not run again. Any other key continues from its state.
func TestUpgrade_recordsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, nil)
	require.NoError(t, pgstore.Version1.Migrate(t.Context(), look, ""))
	exec(t, look, records1)
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
	require.NoError(t, nextVersion(t, latestVersion(t)).Up(t.Context(), look, ""))

	var runs atomic.Int32
	orders := newOrders(t, openOn(t, look, pgstore.Config{}), &runs)
	for range 2 {
		requireOrder(t, "done", orders.post(t.Context(), "done"), true)
		requireOrder(t, "declined", orders.post(t.Context(), "declined"), true)
		require.Equal(t, http.StatusConflict, orders.post(t.Context(), "alive").status, "its owner may live")
	}
	require.Zero(t, runs.Load())
	for n, key := range []string{"released", "dead"} {
		requireOrder(t, key, orders.post(t.Context(), key), false)
		requireOrder(t, key, orders.post(t.Context(), key), true)
		require.EqualValues(t, n+1, runs.Load())
	}
	require.Equal(t, 2, queryRow[int](t, look, "select count(*) from idempotency where state = 2 and fence = 2"))
	other, err := http.NewRequestWithContext(t.Context(), http.MethodPost, orders.url+"/other", http.NoBody)
	require.NoError(t, err)
	other.Header.Set("Idempotency-Key", "done")
	resp, err := http.DefaultClient.Do(other)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode, "the old fingerprint is understood")
}

// A new version is rolled out beside the old one: the first new process migrates while the old
// one serves. No request hears a 5xx, and each version replays what the other answered.
func TestUpgrade_bothVersionsAtOnce(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, nil)
	require.NoError(t, pgstore.Version1.Migrate(t.Context(), look, ""))
	var runs atomic.Int32
	old := newOrders(t, version1(t, look), &runs)
	var asked atomic.Int32
	serve := func(ctx context.Context, callees ...*callee) (stop func()) {
		ctx, end := context.WithCancel(ctx)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for ctx.Err() == nil {
					key := fmt.Sprint("order-", asked.Add(1))
					for n, c := range callees {
						r := c.post(t.Context(), key)
						if r.status != http.StatusCreated || r.body != orderBody(key) || r.replayed != (n > 0) {
							t.Errorf("%s: %d %q, replayed %v by process %d", key, r.status, r.body, r.replayed, n)
							return
						}
					}
				}
			})
		}
		return func() { end(); all.Wait() }
	}
	served := func(n int32) {
		t.Helper()
		from := asked.Load()
		until(t, "requests are served", func() bool { return asked.Load() > from+n || t.Failed() })
	}
	stop := serve(t.Context(), old, old)
	served(50)
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
	served(50)
	stop()
	later := newOrders(t, openOn(t, look, pgstore.Config{}), &runs)
	for _, order := range [][]*callee{{old, later, old}, {later, old, later}} {
		stop := serve(t.Context(), order...)
		served(50)
		stop()
	}
	requireOrder(t, "order-1", later.post(t.Context(), "order-1"), true)
	require.Equal(t, asked.Load(), runs.Load(), "each ran once")
}
