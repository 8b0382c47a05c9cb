package server_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// Three services share a store, and each has a route of the same name. A bank that does not know another service's
// charge would say that it never happened. The charge would then be made a second time.
func TestReconcile_asksTheOwnService(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"charges", "POST /charges:settle", ":", "orders:charges"} {
		s := memstore.New()
		guards, banks := make(map[string]*server.Guard), make(map[string]*bank)
		var runs atomic.Int64
		for _, namespace := range []string{"", "orders", "invoices"} {
			g, b := newGuard(t, s, server.Config{Namespace: namespace}), saying(server.NeverHappened(), nil)
			h, err := g.Route(server.Route{Effect: server.Opaque, Name: name, Reconcile: b.reconcile},
				answer(http.StatusBadGateway, &runs))
			require.NoError(t, err)
			guards[namespace], banks[namespace] = g, b
			require.Equal(t, http.StatusBadGateway, send(h, "k", "b").Code)
		}
		for _, asked := range []string{"orders", "", "invoices"} {
			_, err := guards[asked].Reconcile(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, banks[asked].calls(), "route %q of %q", name, asked)
			c := banks[asked].asked[0]
			require.Equal(t, name, c.Route)
			require.Equal(t, hopKey(t, "unscoped", asked, "k").String(), string(c.Memo))
		}
	}
}

// A person sees the keys of every service over the store, and can select the keys of one route.
func TestListStuck_namespaces(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	var runs atomic.Int64
	orders, invoices := newGuard(t, s, server.Config{Namespace: "orders"}), newGuard(t, s, server.Config{Namespace: "invoices"})
	for _, g := range []*server.Guard{orders, invoices} {
		h, err := g.Route(server.Route{Effect: server.Opaque, Name: "charges"}, answer(http.StatusBadGateway, &runs))
		require.NoError(t, err)
		send(h, "k", "b")
	}
	all, err := orders.ListStuck(t.Context(), store.ListRequest{})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.ElementsMatch(t, []string{"charges", "invoices:charges"}, []string{all[0].Route, all[1].Route})
	own, err := orders.ListStuck(t.Context(), store.ListRequest{Route: "charges"})
	require.NoError(t, err)
	require.Len(t, own, 1)
	require.Equal(t, orders.IDOf("unscoped", key(t, "k")), own[0].ID)
}
