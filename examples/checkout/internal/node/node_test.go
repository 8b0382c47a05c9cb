package node_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/checkout/internal/node"
	"github.com/fanonce/fanonce/examples/checkout/internal/payment"
	"github.com/fanonce/fanonce/examples/checkout/internal/paymentapi"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgtest"
)

var payments = node.Service{Name: "payment", Guarded: payment.Serve, Unguarded: payment.ServeUnguarded}

func charge(t *testing.T, n *node.Node, order string) string {
	t.Helper()
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {URL: "http://" + n.Addr()}}})
	require.NoError(t, err)
	key, err := childkey.Parse(order)
	require.NoError(t, err)
	receipt, err := sdk.Call(childkey.NewContext(t.Context(), key), client, paymentapi.Charge, paymentapi.Payment{Order: order, Cents: 5})
	require.NoError(t, err)
	return receipt.ID
}

// A node's successor over the same storage knows the effects of the node.
func TestNode_restart(t *testing.T) {
	t.Parallel()
	storages := []struct {
		name string
		open func(t *testing.T) *node.Storage
	}{
		{"memory", func(*testing.T) *node.Storage { return node.OpenMemory(false) }},
		{"postgres", func(t *testing.T) *node.Storage {
			storage, err := node.OpenPostgres(t.Context(), pgtest.URL(t), false)
			require.NoError(t, err)
			return storage
		}},
	}
	ends := []struct {
		name string
		end  func(*node.Node, context.Context) error
	}{
		{"stop", (*node.Node).Stop},
		{"break", (*node.Node).Break},
	}
	for _, st := range storages {
		for _, e := range ends {
			t.Run(st.name+", "+e.name, func(t *testing.T) {
				t.Parallel()
				storage := st.open(t)
				defer storage.Close()
				first, err := node.Start(storage, payments)
				require.NoError(t, err)
				receipt := charge(t, first, "order-1")
				require.NoError(t, e.end(first, t.Context()))
				second, err := node.Start(storage, payments)
				require.NoError(t, err)
				require.Equal(t, receipt, charge(t, second, "order-1"))
				require.NoError(t, second.Stop(t.Context()))
				require.NoError(t, second.Stop(t.Context()), "a second Stop")
				tallies, err := storage.Ledger.Tallies(t.Context())
				require.NoError(t, err)
				require.Equal(t, []ledger.Tally{{Order: "order-1", IDs: []string{receipt}, Cents: 5}}, tallies)
			})
		}
	}
}

func TestStart_serviceFails(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	service := node.Service{
		Guarded:   func(*http.ServeMux, *server.Guard, ledger.Ledger) error { return no },
		Unguarded: func(*http.ServeMux, ledger.Ledger) error { return no },
	}
	for _, unsafe := range []bool{false, true} {
		_, err := node.Start(node.OpenMemory(unsafe), service)
		require.ErrorIs(t, err, no)
	}
}

func TestOpenPostgres_badURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://%", "postgres://u:geheim@127.0.0.1:1/x"} {
		_, err := node.OpenPostgres(t.Context(), url, true)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "geheim")
	}
}
