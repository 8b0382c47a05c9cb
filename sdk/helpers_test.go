package sdk_test

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

type (
	lines  struct{ SKUs []string }
	hold   struct{ ID string }
	amount struct{ Cents int }
	charge struct{ ID string }
)

var (
	reserve = contract.Post[lines, hold]("inventory", "reserve", "/reservations").UndoneBy(release)
	release = contract.Post[contract.Undo[lines, hold], struct{}]("inventory", "release", "/reservations/release")
	pay     = contract.Post[amount, charge]("payment", "charge", "/charges").UndoneBy(refund)
	refund  = contract.Post[contract.Undo[amount, charge], struct{}]("payment", "refund", "/refunds")
	capture = contract.Put[amount, charge]("payment", "capture", "/charges/{id}/capture")
)

// quick makes four attempts, and retries wait for a millisecond: the tests are about what
// is sent.
var quick = retry.Config{
	MaxAttempts: 4,
	Backoff:     retry.Backoff{Base: time.Millisecond, Cap: time.Millisecond},
	Poll:        retry.Backoff{Base: time.Millisecond, Cap: time.Millisecond},
}

// answering answers everything with v.
func answering(v any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	})
}

// newClient returns a client for inventory and payment, both at d.
func newClient(tb testing.TB, d *sdktest.Downstream) *sdk.Client {
	tb.Helper()
	c, err := sdk.New(sdk.Config{Retry: quick, Services: map[string]sdk.Service{
		"inventory": {URL: d.URL()}, "payment": {URL: d.URL()},
	}})
	require.NoError(tb, err)
	return c
}

func parent(tb testing.TB, text string) context.Context {
	tb.Helper()
	key, err := childkey.Parse(text)
	require.NoError(tb, err)
	return childkey.NewContext(tb.Context(), key)
}

func child(ctx context.Context, tb testing.TB, service, operation string, discriminators ...string) childkey.Key {
	tb.Helper()
	p, ok := childkey.FromContext(ctx)
	require.True(tb, ok)
	key, err := childkey.Derive(p, service, operation, discriminators...)
	require.NoError(tb, err)
	return key
}

func outcome(tb testing.TB, err error) retry.Outcome {
	tb.Helper()
	var failed *retry.Error
	require.ErrorAs(tb, err, &failed)
	return failed.Outcome
}

// noLeaks checks at the end of the test that no goroutine of this package is
// left. Use it in tests that are not parallel.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 500 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
	})
}

// A roundTrip is a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (rt roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return rt(req) }
