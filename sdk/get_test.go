package sdk_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/sdk"
)

// A Get returns when its ctx ends, whoever holds the branch's place by then. What it found
// before is not lost.
func TestFuture_Get_endsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		takes time.Duration // the branch that is waited for
		found bool
	}{
		{"the branch is still running", time.Minute, false},
		{"the branch ended, and another took the place", 5 * time.Millisecond, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, err := sdk.New(sdk.Config{MaxParallel: 1, Services: map[string]sdk.Service{"a": {URL: "http://a"}}})
				require.NoError(t, err)
				f := c.Fanout(parent(t, "p"))
				var wanted *sdk.Future[int]
				added := make(chan struct{})
				sdk.AddFunc(f, "waits", func(ctx context.Context) (int, error) {
					<-added
					begun := time.Now()
					short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
					defer cancel()
					got, err := wanted.Get(short)
					require.Equal(t, 10*time.Millisecond, time.Since(begun))
					if tt.found {
						require.NoError(t, err)
					} else {
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
					return got, nil
				})
				f.Start()
				synctest.Wait() // it has the only place
				wanted = sdk.AddFunc(f, "wanted", func(context.Context) (int, error) { time.Sleep(tt.takes); return 1, nil })
				if tt.found {
					f.Start()
					synctest.Wait()
				}
				for _, name := range []string{"next", "last"} { // they take the place in turn
					sdk.AddFunc(f, name, func(context.Context) (int, error) { time.Sleep(time.Minute); return 1, nil })
				}
				close(added)
				require.NoError(t, f.Wait())
			})
		})
	}
}
