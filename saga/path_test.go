package saga_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/sdk"
)

// A cashier is a service that answers each call with the ID of what it made, and refuses some paths.
type cashier struct {
	mu     sync.Mutex
	paths  []string
	refuse string
}

func (d *cashier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paths = append(d.paths, r.URL.EscapedPath())
	w.Header().Set(wire.HeaderReplayed, "false")
	if d.refuse != "" && strings.HasSuffix(r.URL.Path, d.refuse) {
		w.Header().Set(wire.HeaderShouldRetry, "false")
		w.WriteHeader(http.StatusConflict)
		return
	}
	fmt.Fprintf(w, `{"ID":"ch/%d"}`, len(d.paths))
}

var (
	openCharge  = contract.Post[order, charge]("payment", "open", "/charges").UndoneBy(closeCharge)
	closeCharge = contract.Post[contract.Undo[order, charge], struct{}]("payment", "close", "/charges/close")
	bookCharge  = contract.Put[order, charge]("payment", "book", "/charges/{id}/of/{sku}").UndoneBy(voidCharge)
	voidCharge  = contract.Post[contract.Undo[order, charge], struct{}]("payment", "void", "/charges/{id}/void")
	sendCharge  = contract.Post[order, charge]("payment", "send", "/charges/{id}/send")
)

// openBooking opens an engine with a saga whose paths have the ID that its first step returned.
func openBooking(t *testing.T, d *cashier, j journal.Journal) (*saga.Engine, *saga.Definition[order, charge]) {
	t.Helper()
	web := httptest.NewServer(d)
	t.Cleanup(web.Close)
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {URL: web.URL}}})
	require.NoError(t, err)
	booking := saga.MustDefine("booking", 1, func(b *saga.Builder[order, charge]) {
		opened := saga.Step(b, openCharge, b.Input())
		id := saga.Map(opened.Output(), func(c charge) string { return c.ID })
		booked := saga.Step(b, bookCharge, b.Input()).At("id", id).At("sku", saga.Map(b.Input(), func(o order) string { return o.SKU }))
		saga.Step(b, sendCharge, b.Input()).At("id", id).After(booked).Pivot()
		saga.Return(b, booked.Output())
	})
	e, err := saga.Open(t.Context(), j, saga.Config{Client: client, Definitions: []saga.AnyDefinition{booking}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) }) // t.Context has ended
	return e, booking
}

func TestAt(t *testing.T) {
	t.Parallel()
	d := new(cashier)
	e, booking := openBooking(t, d, memjournal.New())
	got, err := booking.Run(t.Context(), e, childkey.MustParse("k"), order{SKU: "tea"})
	require.NoError(t, err)
	require.Equal(t, charge{"ch/2"}, got)
	require.Equal(t, []string{"/charges", "/charges/ch%2F1/of/tea", "/charges/ch%2F1/send"}, d.paths)
	require.Equal(t, []string{"payment.open"}, booking.Steps()[1].After, "the path needs the output")
}

// An undo has the values of the call that it undoes.
func TestAt_undo(t *testing.T) {
	t.Parallel()
	d := &cashier{refuse: "/send"}
	e, booking := openBooking(t, d, memjournal.New())
	_, err := booking.Run(t.Context(), e, childkey.MustParse("k"), order{SKU: "tea"})
	require.ErrorIs(t, err, saga.ErrCompensated)
	require.Equal(t, []string{"/charges", "/charges/ch%2F1/of/tea", "/charges/ch%2F1/send", "/charges/ch%2F1/void", "/charges/close"}, d.paths)
}

// A value that no path can have fails the step before anything is sent, and the saga is undone.
func TestAt_valueThatIsNoSegment(t *testing.T) {
	t.Parallel()
	for _, sku := range []string{"", "..", "/"} {
		d := new(cashier)
		e, booking := openBooking(t, d, memjournal.New())
		_, err := booking.Run(t.Context(), e, childkey.MustParse("k"), order{SKU: sku})
		require.ErrorIs(t, err, saga.ErrCompensated, "%q", sku)
		var failed *saga.Error
		require.True(t, errors.As(err, &failed))
		require.Equal(t, "payment.book", failed.FailedStep)
		require.Contains(t, err.Error(), "cannot be a segment of a path")
		require.Equal(t, []string{"/charges", "/charges/close"}, d.paths)
	}
}
