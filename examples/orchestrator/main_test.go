package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(blackboxtest.ChildVariable) == "" {
		os.Exit(m.Run())
	}
	main()
}

// A deployment is an orchestrator and its three hops, each with its own database.
type deployment struct {
	hops      map[string]*blackboxtest.Process
	databases map[string]*pgxpool.Pool
	front     *blackboxtest.Process
}

// newDeployment starts one.
func newDeployment(t *testing.T) *deployment {
	t.Helper()
	return newDeploymentVia(t, straight)
}

// newDeploymentVia starts one whose orchestrator calls each hop at the address that via returns
// for it.
func newDeploymentVia(t *testing.T, via func(hop string) string) *deployment {
	t.Helper()
	w := newHopsOnly(t)
	w.startFront(t, w.database(t, "orchestrator"), via)
	w.front.AwaitReady()
	return w
}

// newHopsOnly starts a deployment without an orchestrator.
func newHopsOnly(t *testing.T) *deployment {
	t.Helper()
	ledger := blackboxtest.Build(t, "../ledger")
	w := &deployment{hops: map[string]*blackboxtest.Process{}, databases: map[string]*pgxpool.Pool{}}
	for _, name := range []string{"inventory", "payment", "notification"} {
		w.hops[name] = blackboxtest.StartBinary(t, ledger, "SERVICE="+name, "DATABASE_URL="+w.database(t, name))
	}
	for _, hop := range w.hops {
		hop.AwaitReady()
	}
	return w
}

// database returns the URL of a new database, of the service with that name.
func (d *deployment) database(t *testing.T, name string) string {
	t.Helper()
	url := pgtest.URL(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d.databases[name] = pool
	return url
}

// startFront starts the orchestrator and does not wait until it is ready.
func (d *deployment) startFront(t *testing.T, database string, via func(hop string) string, env ...string) {
	t.Helper()
	d.front = blackboxtest.Start(t, append(env, "DATABASE_URL="+database, "HOP_INVENTORY_URL="+via(d.hops["inventory"].URL),
		"HOP_PAYMENT_URL="+via(d.hops["payment"].URL), "HOP_NOTIFICATION_URL="+via(d.hops["notification"].URL))...)
}

// straight is a via that leads to the hop itself.
func straight(hop string) string { return hop }

func (d *deployment) checkout(key string) blackboxtest.Request {
	return blackboxtest.Request{URL: d.front.URL + "/v1/checkout", Tenant: "t", Key: key, Body: `{"fp":"a"}`}
}

func (d *deployment) effects(t *testing.T, hop string) (n int) {
	t.Helper()
	require.NoError(t, d.databases[hop].QueryRow(t.Context(), "select count(*) from effects").Scan(&n))
	return n
}

// killAtWork kills the orchestrator while one of its calls runs at that hop, and starts it
// again. The hop cannot end the call before that. begin gives it work.
func (d *deployment) killAtWork(t *testing.T, hop string, begin func()) {
	t.Helper()
	held, err := d.databases[hop].Begin(t.Context())
	require.NoError(t, err)
	defer held.Rollback(t.Context())
	_, err = held.Exec(t.Context(), "lock table effects in share row exclusive mode")
	require.NoError(t, err)
	begin()
	require.Eventually(t, func() bool {
		var waits bool
		err := d.databases[hop].QueryRow(t.Context(), `select exists (select from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waits)
		return err == nil && waits
	}, 2*time.Minute, time.Millisecond, "no call came to %s", hop)
	d.front.Kill()
	// Its leases are long, so that on a slow machine it does not lose them while it lives.
	for _, lapse := range []string{
		"update idempotency set lease_until = clock_timestamp() where state = 1",
		"update saga_engine set lease_until = clock_timestamp()",
	} {
		_, err = d.databases["orchestrator"].Exec(t.Context(), lapse)
		require.NoError(t, err)
	}
	d.front.Restart()
}

var operations = map[string]string{"inventory": "reserve", "payment": "charge", "notification": "receipt"}

func TestCheckout(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	first := blackboxtest.Post(t.Context(), w.checkout("parent-1"))
	require.Equal(t, http.StatusOK, first.Status, first.Body)
	var out answer
	require.NoError(t, json.Unmarshal([]byte(first.Body), &out))
	require.Equal(t, "t", out.Tenant)
	require.Len(t, out.Calls, 3)
	parent, err := childkey.Hop("t", "", childkey.MustParse("parent-1"))
	require.NoError(t, err)
	for service, operation := range operations {
		key, err := childkey.Derive(parent, service, operation)
		require.NoError(t, err)
		call := out.Calls[service+"."+operation]
		require.Equal(t, key.String(), call.Key)
		var id, tenant string
		require.NoError(t, w.databases[service].QueryRow(t.Context(), "select effect_id, tenant from effects where key = $1", call.Key).Scan(&id, &tenant))
		require.Equal(t, id, call.EffectID)
		require.Equal(t, "t", tenant, "passed on")
	}
	second := blackboxtest.Post(t.Context(), w.checkout("parent-1"))
	require.True(t, second.Replayed())
	require.Equal(t, first.Body, second.Body)
}

// A hop that is down leaves the checkout open; asked again when it is back,
// the other hops replay.
func TestHopDownAndBack(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	w.hops["payment"].Kill()
	open := blackboxtest.Post(t.Context(), w.checkout("p"))
	require.Equal(t, http.StatusServiceUnavailable, open.Status, open.Body)
	require.NotEmpty(t, open.Header.Get("Retry-After"))
	w.hops["payment"].Restart()
	w.hops["payment"].AwaitReady()
	require.Equal(t, http.StatusOK, blackboxtest.PostUntilFinal(t.Context(), w.checkout("p")).Status)
	for service := range operations {
		require.Equal(t, 1, w.effects(t, service), service)
	}
}

// An orchestrator that dies in the middle of its fan-out finishes it when it is
// asked again, under the same child keys.
func TestKilledMidFanout(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	const each = 4
	checkouts := each * len(operations)
	var wg sync.WaitGroup
	answers := make([]blackboxtest.Answer, checkouts)
	next := 0
	for hop := range operations {
		w.killAtWork(t, hop, func() {
			for range each {
				i := next
				next++
				wg.Go(func() { answers[i] = blackboxtest.PostUntilFinal(t.Context(), w.checkout("p-"+string(rune('a'+i)))) })
			}
		})
	}
	wg.Wait()
	for _, a := range answers {
		require.Equal(t, http.StatusOK, a.Status, a.Body)
	}
	for service := range operations {
		require.Equal(t, checkouts, w.effects(t, service), service)
	}
}

// A rejection is final: it is stored, and nothing of the checkout is left at the other hops.
func TestRejectedByAHop(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	declined := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Idempotent-Replayed", "false")
		w.Header().Set("Idempotency-Should-Retry", "false")
		w.WriteHeader(http.StatusPaymentRequired)
	}))
	t.Cleanup(declined.Close)
	front := blackboxtest.Start(t, "DATABASE_URL="+pgtest.URL(t), "HOP_INVENTORY_URL="+w.hops["inventory"].URL,
		"HOP_PAYMENT_URL="+declined.URL, "HOP_NOTIFICATION_URL="+w.hops["notification"].URL).AwaitReady()
	req := blackboxtest.Request{URL: front.URL + "/v1/checkout", Tenant: "t", Key: "p", Body: `{"fp":"a"}`}
	first, second := blackboxtest.Post(t.Context(), req), blackboxtest.Post(t.Context(), req)
	require.Equal(t, http.StatusPaymentRequired, first.Status, first.Body)
	require.True(t, second.Replayed())
	require.Equal(t, first.Body, second.Body)
	var out answer
	require.NoError(t, json.Unmarshal([]byte(first.Body), &out))
	require.Len(t, out.Calls["payment.charge"].Key, 32)
	require.Zero(t, w.effects(t, "notification"), "the receipt comes last")
	var kinds string
	const query = "select string_agg(kind, ' ' order by kind) from effects"
	require.NoError(t, w.databases["inventory"].QueryRow(t.Context(), query).Scan(&kinds))
	require.Equal(t, "do undo", kinds)
}

func TestConfigFromEnv(t *testing.T) {
	t.Parallel()
	_, err := configFromEnv(func(string) string { return "" })
	for _, name := range []string{"LISTEN", "DATABASE_URL", "HOP_INVENTORY_URL", "HOP_PAYMENT_URL", "HOP_NOTIFICATION_URL"} {
		require.ErrorContains(t, err, name+": not set")
	}
}
