package sdk_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// A client that is closed leaves no connection behind, whatever its profile.
func TestClient_Close(t *testing.T) {
	t.Parallel()
	for name, profile := range map[string]*retry.Profile{"Unguarded": retry.Unguarded(), "Stripe": retry.Stripe()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var open atomic.Int32
			srv := httptest.NewUnstartedServer(answering(charge{"1"}))
			srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					open.Add(1)
				case http.StateClosed:
					open.Add(-1)
				}
			}
			srv.Start()
			defer srv.Close()
			c, err := sdk.New(sdk.Config{Retry: quick, Services: map[string]sdk.Service{"payment": {URL: srv.URL, Profile: profile}}})
			require.NoError(t, err)
			_, err = sdk.Call(parent(t, "p"), c, pay, amount{1})
			require.NoError(t, err)
			require.EqualValues(t, 1, open.Load())
			c.Close()
			c.Close()
			require.Eventually(t, func() bool { return open.Load() == 0 }, 10*time.Second, time.Millisecond)
		})
	}
	(*sdk.Client)(nil).Close()
}
