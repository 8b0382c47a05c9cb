package wire_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
)

func TestInbound(t *testing.T) {
	t.Parallel()
	in, ok := wire.FromContext(t.Context())
	require.False(t, ok)
	require.Zero(t, in)

	want := wire.Inbound{FirstSent: time.Unix(1, 0), Parent: [16]byte{3}, Attempt: 2, CallerRetries: true, Deadline: time.Unix(2, 0)}
	in, ok = wire.FromContext(wire.NewContext(t.Context(), want))
	require.True(t, ok)
	require.Equal(t, want, in)
}

// The first FromContext asks once whether the claim is durable, and all of them get the answer.
func TestInbound_confirm(t *testing.T) {
	t.Parallel()
	for _, confirmed := range []bool{true, false} {
		t.Run(fmt.Sprint(confirmed), func(t *testing.T) {
			t.Parallel()
			claimed, asked := time.Now(), 0
			ctx := wire.NewContext(t.Context(), wire.Inbound{FirstSent: claimed, Attempt: 1, CallerRetries: true, Confirm: func() bool {
				asked++
				return confirmed
			}})
			require.Zero(t, asked)
			want := wire.Inbound{FirstSent: claimed}
			if !confirmed {
				want = wire.Inbound{Rerun: true}
			}
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					in, ok := wire.FromContext(ctx)
					if !ok || !in.FirstSent.Equal(want.FirstSent) || in.Rerun != want.Rerun || in.Attempt != 1 || !in.CallerRetries || in.Confirm != nil {
						t.Errorf("FromContext = %+v, %v, want %+v", in, ok, want)
					}
				})
			}
			all.Wait()
			require.Equal(t, 1, asked)
		})
	}
}

func ExampleParseKeyHeader() {
	h := http.Header{wire.HeaderKey: {`"order-42"`}}
	key, present, err := wire.ParseKeyHeader(h.Values(wire.HeaderKey))
	fmt.Println(key, present, err)

	h.Add(wire.HeaderKey, "order-43")
	_, _, err = wire.ParseKeyHeader(h.Values(wire.HeaderKey))
	fmt.Println(err)
	// Output:
	// order-42 true <nil>
	// wire: bad header: key: more than one line
}

// A request's headers tell the calls that are made for it whether they may be retried, and how
// much time they have.
func ExampleParseInbound() {
	h := http.Header{wire.HeaderRetryAttempt: {"2"}, wire.HeaderRetryAllowance: {"0"}}
	in := wire.ParseInbound(h.Values)
	ctx := wire.NewContext(context.Background(), in) // of the handler

	in, _ = wire.FromContext(ctx)
	fmt.Println(in.Attempt, in.CallerRetries, in.Deadline.IsZero())
	// Output: 2 true true
}

func ExampleRetryAfter() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	wait, ok := wire.RetryAfter(http.Header{"Retry-After": {"120"}}, now)
	fmt.Println(wait, ok)
	wait, ok = wire.RetryAfter(http.Header{"Retry-After": {"Sun, 01 Mar 2026 12:00:05 GMT"}}, now)
	fmt.Println(wait, ok)
	// Output:
	// 2m0s true
	// 5s true
}
