package unguarded_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/examples/checkout/internal/unguarded"
)

var double = contract.Post[int, int]("math", "double", "/double")

// serve serves double, which fails as often as failures says at first, and
// counts its runs.
func serve(t *testing.T, failures int64) (string, *atomic.Int64) {
	t.Helper()
	runs, mux := new(atomic.Int64), http.NewServeMux()
	require.NoError(t, unguarded.Handle(mux, double, func(_ context.Context, n int) (int, error) {
		if runs.Add(1) <= failures {
			return 0, errors.New("after the work, for all we know")
		}
		return 2 * n, nil
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, runs
}

func TestCall_runsAgainAndAgain(t *testing.T) {
	t.Parallel()
	url, runs := serve(t, 2)
	got, err := unguarded.Call(t.Context(), url, double, 21)
	require.NoError(t, err)
	require.Equal(t, 42, got)
	require.EqualValues(t, 3, runs.Load())
}

func TestCall_givesUp(t *testing.T) {
	t.Parallel()
	url, runs := serve(t, 1000)
	_, err := unguarded.Call(t.Context(), url, double, 21)
	require.ErrorContains(t, err, "503")
	require.EqualValues(t, 4, runs.Load())
}

func TestCall_endsWithItsContext(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := unguarded.Call(ctx, url, double, 21)
	require.ErrorIs(t, err, context.Canceled)
}

func TestHandle_badInput(t *testing.T) {
	t.Parallel()
	url, runs := serve(t, 0)
	resp, err := http.Post(url+"/double", "application/json", strings.NewReader("{"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.Zero(t, runs.Load())
	bad := contract.Post[int, int]("", "", "")
	require.Error(t, unguarded.Handle(http.NewServeMux(), bad, nil))
	_, err = unguarded.Call(t.Context(), url, bad, 1)
	require.ErrorIs(t, err, contract.ErrInvalid)
}
