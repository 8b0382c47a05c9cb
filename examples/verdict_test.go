package examples_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

var charge = contract.Post[int, int]("bank", "charge", "/charges")

// startBank starts a service whose typed handler declines every charge.
func startBank(t *testing.T, cfg server.Config) *sdk.Client {
	t.Helper()
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, cfg)
	require.NoError(t, err)
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, charge, server.Keyed, func(context.Context, int) (int, error) {
		return 0, server.Refuse(http.StatusPaymentRequired, "card-declined", "No funds on this card.")
	}))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"bank": {URL: srv.URL}}})
	require.NoError(t, err)
	return client
}

// A typed handler's code and detail reach whoever called it, directly or in a saga.
func TestVerdict_reachesTheCaller(t *testing.T) {
	t.Parallel()
	client := startBank(t, server.Config{})
	declined := func(err error) {
		t.Helper()
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, retry.Rejected, failed.Outcome)
		require.Equal(t, http.StatusPaymentRequired, failed.Status)
		require.Equal(t, wire.Code("card-declined"), failed.Code)
		require.Equal(t, "No funds on this card.", failed.Detail)
		var problem struct{ Status int }
		require.NoError(t, failed.Decode(&problem))
		require.Equal(t, http.StatusPaymentRequired, problem.Status)
	}
	ctx := childkey.NewContext(t.Context(), childkey.MustParse("order-1"))
	for range 2 { // the answer, and its replay
		_, err := sdk.Call(ctx, client, charge, 5)
		declined(err)
	}

	pay := saga.MustDefine("pay", 1, func(b *saga.Builder[int, int]) {
		saga.Return(b, saga.Step(b, charge, b.Input()).Pivot().Output())
	})
	engine, err := saga.Open(t.Context(), memjournal.New(), saga.Config{Client: client, Definitions: []saga.AnyDefinition{pay}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close(context.Background())) })
	for range 2 { // as it ends, and as it is stored
		_, err = pay.Run(t.Context(), engine, childkey.MustParse("order-2"), 5)
		var failed *saga.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "bank.charge", failed.FailedStep)
		require.Equal(t, http.StatusPaymentRequired, failed.HTTPStatus)
		require.Equal(t, wire.Code("card-declined"), failed.Code)
		var problem struct{ Detail string }
		require.NoError(t, failed.Decode(&problem))
		require.Equal(t, "No funds on this card.", problem.Detail)
		require.Equal(t, problem.Detail, failed.Detail)
		declined(err)
	}
}
