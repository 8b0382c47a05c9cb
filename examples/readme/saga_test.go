package readme_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/readme"
	"github.com/fanonce/fanonce/examples/readme/inventoryapi"
	"github.com/fanonce/fanonce/examples/readme/paymentapi"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/sdk/sdktest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// The card of the second order is declined, so that its reservation is released; the
// answers to the first attempts are lost.
func TestRunCheckout(t *testing.T) {
	t.Parallel()
	inventory := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"id":"h-1"}`) }))
	payment := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == `{"cents":13}` {
			w.WriteHeader(http.StatusPaymentRequired)
			return
		}
		_, _ = io.WriteString(w, `{"id":"r-1"}`)
	}))
	inventory.Script("/reservations", sdktest.DropResponse())
	payment.Script("/charges", sdktest.DropResponse())
	client, err := readme.NewClient(inventory.URL(), payment.URL(), "secret-1")
	require.NoError(t, err)
	pool := pgtest.NewPool(t, pgjournal.Migrate)
	engine, journal, err := readme.OpenSagas(t.Context(), pool.Config().ConnString(), client, pgjournal.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(journal.Close)
	t.Cleanup(func() { require.NoError(t, engine.Close(context.WithoutCancel(t.Context()))) })

	order := readme.Order{Line: inventoryapi.Line{SKU: "sku-1", Count: 2}, Payment: paymentapi.Payment{Cents: 4200}}
	for range 2 {
		confirmation, err := readme.RunCheckout(t.Context(), engine, childkey.MustParse("order-1"), order)
		require.NoError(t, err)
		require.Equal(t, "h-1/r-1", confirmation)
	}
	order.Payment.Cents = 13
	_, err = readme.RunCheckout(t.Context(), engine, childkey.MustParse("order-2"), order)
	require.ErrorIs(t, err, saga.ErrCompensated)
	var released int
	for _, r := range inventory.Requests() {
		if r.Path == "/reservations/release" {
			released++
		}
	}
	require.Equal(t, 1, released)
	for _, d := range []*sdktest.Downstream{inventory, payment} {
		for key, n := range d.Effects() {
			require.Equal(t, 1, n, key)
		}
	}
}
