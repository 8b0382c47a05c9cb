package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(blackboxtest.ChildVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// deploy does what a deploy does before the service starts: it makes the tables and the roles, and returns a pool of the
// tables' owner and the address with which the service connects, whose role has no more rights than a service needs.
func deploy(t *testing.T) (owner *pgxpool.Pool, url string) {
	t.Helper()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true, Durable: true}) // roles belong to the whole server
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	owner, err = pgxpool.New(t.Context(), cluster.URL(""))
	require.NoError(t, err)
	t.Cleanup(owner.Close)
	require.NoError(t, pgstore.Migrate(t.Context(), owner, ""))
	require.NoError(t, pgstore.Roles{}.Grant(t.Context(), owner))
	for _, statement := range []string{
		"create table orders (id bigint generated always as identity, sku text not null)",
		"create role orders login password 'secret' in role fanonce_runtime",
		"grant select, insert on orders to orders",
	} {
		_, err = owner.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	service := owner.Config().ConnConfig
	return owner, fmt.Sprintf("postgres://orders:secret@%s:%d/%s?pool_max_conns=20", service.Host, service.Port, service.Database)
}

// The service is asked to stop while 16 callers send orders. A balancer looks at its readiness, and sends nothing more
// once it is unready. Each order gets its answer, and is there once.
func TestProduction_stopsUnderLoad(t *testing.T) {
	t.Parallel()
	owner, url := deploy(t)
	ops := blackboxtest.FreeAddress(t)
	p := blackboxtest.Start(t, "DATABASE_URL="+url, `TENANTS={"token-1":"acme"}`, "OPS_LISTEN="+ops, "OPS_PASSWORD=open")
	ready := func() bool { return blackboxtest.Status(t.Context(), p.URL+"/readyz") == http.StatusOK }
	require.Eventually(t, ready, time.Minute, 10*time.Millisecond)

	require.Equal(t, http.StatusUnauthorized, post(t, p, "token-2", "stolen").Status)
	first := post(t, p, "token-1", "order-1")
	require.Equal(t, http.StatusOK, first.Status, first.Body)
	again := post(t, p, "token-1", "order-1")
	require.True(t, again.Replayed())
	require.Equal(t, first.Body, again.Body)
	require.Contains(t, operator(t, "http://"+ops+"/ops/", "open"), "orders")
	require.Contains(t, operator(t, "http://"+ops+"/debug/vars", ""), `"hit":1`)
	require.Equal(t, http.StatusUnauthorized, blackboxtest.Status(t.Context(), "http://"+ops+"/ops/"))

	balanced, unbalance := context.WithCancel(t.Context())
	var sent atomic.Int64
	var callers sync.WaitGroup
	for caller := range 16 {
		callers.Go(func() {
			for n := 0; balanced.Err() == nil; n++ {
				answer := post(t, p, "token-1", fmt.Sprint("order-", caller, "-", n))
				sent.Add(1)
				if answer.Status != http.StatusOK {
					t.Errorf("order %d: %d %s", n, answer.Status, answer.Body)
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool { return sent.Load() > 100 }, time.Minute, time.Millisecond)
	p.Signal(syscall.SIGTERM)
	before := sent.Load()
	require.Eventually(t, func() bool { return !ready() }, time.Minute, time.Millisecond, "unready at once")
	require.Eventually(t, func() bool { return sent.Load() > before+100 }, time.Minute, time.Millisecond, "it still serves")
	unbalance()
	callers.Wait()
	require.NoError(t, p.Wait(), "a stop is no failure")

	var rows, open int64
	require.NoError(t, owner.QueryRow(t.Context(), "select count(*) from orders").Scan(&rows))
	require.Equal(t, sent.Load()+1, rows)
	require.NoError(t, owner.QueryRow(t.Context(), "select count(*) from idempotency where status is distinct from 200").Scan(&open))
	require.Zero(t, open)
}

func post(t *testing.T, p *blackboxtest.Process, token, key string) blackboxtest.Answer {
	t.Helper()
	return blackboxtest.Post(t.Context(), blackboxtest.Request{URL: p.URL + "/orders", Tenant: token, Key: key, Body: `{"SKU":"tea"}`})
}

// operator returns what an operator sees at url.
func operator(t *testing.T, url, password string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, strings.NewReader(""))
	require.NoError(t, err)
	req.SetBasicAuth("ann", password)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(text))
	return string(text)
}
