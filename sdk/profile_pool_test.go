package sdk_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// Calls side by side keep their connections for the calls after them, whatever the profile.
func TestProfile_keepsConnections(t *testing.T) {
	t.Parallel()
	const calls, rounds = 16, 5
	for name, profile := range map[string]*retry.Profile{"Unguarded": retry.Unguarded(), "Stripe": retry.Stripe(), "UUIDOnly": retry.UUIDOnly()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var conns atomic.Int32
			var together atomic.Pointer[sync.WaitGroup]
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				together.Load().Done()
				together.Load().Wait() // each call of the round has a connection
				_, _ = io.WriteString(w, `{"ID":"1"}`)
			}))
			srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					conns.Add(1)
				}
			}
			srv.Start()
			defer srv.Close()
			c, err := sdk.New(sdk.Config{Retry: quick, Services: map[string]sdk.Service{"payment": {URL: srv.URL, Profile: profile}}})
			require.NoError(t, err)
			for round := range rounds {
				wg := new(sync.WaitGroup)
				wg.Add(calls)
				together.Store(wg)
				var all sync.WaitGroup
				for i := range calls {
					all.Go(func() {
						if _, err := sdk.Call(parent(t, fmt.Sprint("p-", round, "-", i)), c, pay, amount{i}); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
			}
			require.LessOrEqual(t, conns.Load(), int32(2*calls), "%d where idle connections are closed", calls+(rounds-1)*(calls-2))
		})
	}
}
