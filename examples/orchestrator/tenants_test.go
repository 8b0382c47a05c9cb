package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
)

// asOne returns the address of a proxy of the hop that hides the tenants: the hop sees
// one caller.
func asOne(t *testing.T) func(hop string) string {
	t.Helper()
	return func(hop string) string {
		target, err := url.Parse(hop)
		require.NoError(t, err)
		proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Authorization", "Bearer orchestrator")
		}})
		t.Cleanup(proxy.Close)
		return proxy.URL
	}
}

// Two tenants send one key and one body through the hops, as a checkout and as a saga
// that is undone. Each has effects of its own, also at hops that see one caller.
func TestTenants(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		deploy func(t *testing.T) *deployment
	}{
		{"hops know the tenants", newDeployment},
		{"hops know the orchestrator", func(t *testing.T) *deployment { t.Helper(); return newDeploymentVia(t, asOne(t)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := tt.deploy(t)
			w.requireOwnCheckouts(t)
			const refused = `{"fp":"a","reject":"notification.receipt"}`
			w.requireOwnSagas(t, "s-1", map[string]string{"t": refused, "u": refused}, map[string]string{"t": "compensated", "u": "compensated"})
			w.requireOwnSagas(t, "s-2", map[string]string{"t": `{"fp":"a"}`, "u": refused}, map[string]string{"t": "completed", "u": "compensated"})
		})
	}
}

func (d *deployment) requireOwnCheckouts(t *testing.T) {
	t.Helper()
	for _, tenant := range []string{"t", "u"} {
		req := d.checkout("order-1")
		req.Tenant = tenant
		first := blackboxtest.PostUntilFinal(t.Context(), req)
		require.Equal(t, http.StatusOK, first.Status, first.Body)
		var out answer
		require.NoError(t, json.Unmarshal([]byte(first.Body), &out))
		require.Equal(t, tenant, out.Tenant)
		for service, operation := range operations {
			call := out.Calls[service+"."+operation]
			require.Equal(t, childOf(t, tenant, "", "order-1", service, operation), call.Key)
			do, undo := d.effectsOf(t, service, call.Key)
			require.Equal(t, [2]int{1, 0}, [2]int{do, undo}, "%s of %s", service, tenant)
		}
		again := blackboxtest.Post(t.Context(), req)
		require.True(t, again.Replayed())
		require.Equal(t, first.Body, again.Body)
	}
	for service := range operations {
		require.Equal(t, 2, d.effects(t, service), service)
	}
}

// requireOwnSagas starts a saga of each tenant under one key. The effects of a tenant's saga
// are undone if, and only if, that saga is compensated.
func (d *deployment) requireOwnSagas(t *testing.T, key string, bodies, ends map[string]string) {
	t.Helper()
	for tenant, body := range bodies {
		req := d.saga(key, body)
		req.Tenant = tenant
		started := blackboxtest.PostUntilFinal(t.Context(), req)
		require.Equal(t, http.StatusAccepted, started.Status, started.Body)
	}
	for tenant, end := range ends {
		require.Eventually(t, func() bool {
			_, view := show(t, d.front, tenant, key)
			return view.Status == end
		}, time.Minute, 10*time.Millisecond, "%s of %s", key, tenant)
		want := map[string][2]int{"inventory": {1, 0}, "payment": {1, 0}, "notification": {1, 0}}
		if end == "compensated" {
			want = map[string][2]int{"inventory": {1, 1}, "payment": {1, 1}, "notification": {0, 0}}
		}
		for service, operation := range operations {
			do, undo := d.effectsOf(t, service, childOf(t, tenant, "saga/checkout", key, service, operation))
			require.Equal(t, want[service], [2]int{do, undo}, "%s, %s of %s", key, service, tenant)
		}
	}
}

// childOf is the key of a hop's call, as it arrives there.
func childOf(t *testing.T, tenant, namespace, key, service, operation string) string {
	t.Helper()
	parent, err := childkey.Hop(tenant, namespace, childkey.MustParse(key))
	require.NoError(t, err)
	child, err := childkey.Derive(parent, service, operation)
	require.NoError(t, err)
	return child.String()
}

// effectsOf counts what a hop did and undid under a key, for whomever.
func (d *deployment) effectsOf(t *testing.T, hop, key string) (do, undo int) {
	t.Helper()
	require.NoError(t, d.databases[hop].QueryRow(t.Context(), `select count(*) filter (where kind = 'do'),
		count(*) filter (where kind = 'undo') from effects where key = $1`, key).Scan(&do, &undo))
	return do, undo
}
