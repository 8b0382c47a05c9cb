package examples_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// After the failure of an Opaque handler the service asks for no more retries. The same code is worth another run all
// the same: when a person has decided, it gets the answer. The error's text and sdk.Resumable agree about that.
func TestOpaque_failureIsResumable(t *testing.T) {
	t.Parallel()
	var lost atomic.Bool
	lost.Store(true)
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(t, err)
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, charge, server.Opaque, func(_ context.Context, cents int) (int, error) {
		if lost.Load() {
			return 0, errors.New("the bank's answer is lost")
		}
		return cents, nil
	}))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"bank": {URL: srv.URL}}})
	require.NoError(t, err)
	ctx := childkey.NewContext(t.Context(), childkey.MustParse("order-1"))

	for _, status := range []int{http.StatusInternalServerError, http.StatusLocked} {
		_, err := sdk.Call(ctx, client, charge, 5)
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, []any{status, retry.Unknown}, []any{failed.Status, failed.Outcome}, "%v", err)
		require.ErrorIs(t, err, retry.ErrNotRetryable)
		require.True(t, sdk.Resumable(err), "%v", err)
		require.ErrorContains(t, err, "the service asks for no more retries")
		require.NotContains(t, err.Error(), "no retry can help")
	}

	lost.Store(false)
	stuck, err := guard.ListStuck(t.Context(), store.ListRequest{Limit: 2})
	require.NoError(t, err)
	require.Len(t, stuck, 1)
	by := store.Audit{Actor: "ann", Reason: "the bank knows no such charge"}
	require.NoError(t, guard.Resolve(t.Context(), stuck[0].ID, stuck[0].Fence, server.NeverHappened(), by))
	cents, err := sdk.Call(ctx, client, charge, 5)
	require.NoError(t, err)
	require.Equal(t, 5, cents)
}
