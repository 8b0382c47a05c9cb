package examples_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

var (
	refundCharge = contract.Post[contract.Undo[int, int], struct{}]("bank", "refund", "/refunds")
	ship         = contract.Post[int, int]("bank", "ship", "/parcels")
)

// A refunder is a bank that takes charges, refuses to ship, and answers refunds with a status as long as it is not 0.
type refunder struct {
	status  atomic.Int32
	refunds atomic.Int32
}

func (r *refunder) serve(t *testing.T) string {
	t.Helper()
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(t, err)
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, charge, server.Transactional, func(_ context.Context, cents int) (int, error) { return cents, nil }))
	require.NoError(t, server.Handle(mux, guard, ship, server.Transactional, func(context.Context, int) (int, error) {
		return 0, server.Refuse(http.StatusConflict, "no-such-address", "")
	}))
	require.NoError(t, server.Handle(mux, guard, refundCharge, server.Transactional, func(ctx context.Context, _ contract.Undo[int, int]) (struct{}, error) {
		r.refunds.Add(1)
		if status := int(r.status.Load()); status != 0 {
			return struct{}{}, &server.StatusError{Status: status, Code: "account-frozen"}
		}
		_, err := server.Barrier(ctx)
		return struct{}{}, err
	}))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// A guard stores the refusal of an undo, and repeats it to every Retry. ForceUndone ends it. An undo that fails with
// a 503 is not stored: once a person has mended the cause, Retry runs it.
func TestRetry_ofARefusedUndo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		status  int32
		retried journal.Status
	}{{"stored", http.StatusUnprocessableEntity, journal.Stuck}, {"not stored", http.StatusServiceUnavailable, journal.Compensated}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bank := new(refunder)
			bank.status.Store(tt.status)
			engine, order := openOrders(t, bank.serve(t))
			by := journal.Audit{Actor: "ann", Reason: "the account is open again"}

			_, err := order.Run(t.Context(), engine, childkey.MustParse("order-1"), 5)
			stuck := wantStatus(t, err, journal.Stuck)
			require.Equal(t, "bank.charge", stuck.StuckOn.Step)
			bank.status.Store(0) // mended
			before := bank.refunds.Load()
			_, err = engine.Retry(t.Context(), stuck.ID, by)
			require.NoError(t, err)
			_, err = order.Run(t.Context(), engine, childkey.MustParse("order-1"), 5)
			wantStatus(t, err, tt.retried)
			if tt.retried == journal.Compensated {
				require.Equal(t, before+1, bank.refunds.Load())
				return
			}
			require.Equal(t, int32(1), bank.refunds.Load(), "the refusal is repeated: no handler runs")
			_, err = engine.ForceUndone(t.Context(), stuck.ID, "bank.charge", by)
			require.NoError(t, err)
			_, err = order.Run(t.Context(), engine, childkey.MustParse("order-1"), 5)
			wantStatus(t, err, journal.Compensated)
		})
	}
}

func openOrders(t *testing.T, url string) (*saga.Engine, *saga.Definition[int, int]) {
	t.Helper()
	order := saga.MustDefine("order", 1, func(b *saga.Builder[int, int]) {
		b.UndoBudget(2 * time.Second)
		charged := saga.Step(b, charge, b.Input()).Undo(refundCharge)
		saga.Return(b, saga.Step(b, ship, charged.Output()).Output())
	})
	client, err := sdk.New(sdk.Config{
		Services: map[string]sdk.Service{"bank": {URL: url}}, Retry: retry.Config{MaxAttempts: 1},
	})
	require.NoError(t, err)
	engine, err := saga.Open(t.Context(), memjournal.New(), saga.Config{Client: client, Definitions: []saga.AnyDefinition{order}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close(context.Background()) })
	return engine, order
}

// wantStatus returns the end of a saga that has this status. Its error counts the attempt of the step that failed.
func wantStatus(t *testing.T, err error, want journal.Status) *saga.Error {
	t.Helper()
	var failed *saga.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, want, failed.Status)
	var call *retry.Error
	require.ErrorAs(t, failed.Cause, &call)
	require.Equal(t, 1, call.Attempts)
	require.Contains(t, call.Error(), "bank.ship: Rejected after 1 attempt")
	return failed
}
