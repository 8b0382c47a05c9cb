package wire_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
)

func TestInbound(t *testing.T) {
	t.Parallel()
	in, ok := wire.FromContext(t.Context())
	require.False(t, ok)
	require.Equal(t, wire.Inbound{Allowance: -1}, in, "nothing said must not mean no retries")

	want := wire.Inbound{FirstSent: time.Unix(1, 0), Parent: [16]byte{3}, Attempt: 2, Allowance: 0, Deadline: time.Unix(2, 0)}
	in, ok = wire.FromContext(wire.NewContext(t.Context(), want))
	require.True(t, ok)
	require.Zero(t, in.Retries().Left())
	require.EqualExportedValues(t, want, in)
}

// The first FromContext asks once whether the claim is durable, and all of them get the answer.
func TestInbound_confirm(t *testing.T) {
	t.Parallel()
	for _, confirmed := range []bool{true, false} {
		t.Run(fmt.Sprint(confirmed), func(t *testing.T) {
			t.Parallel()
			claimed, asked := time.Now(), 0
			ctx := wire.NewContext(t.Context(), wire.Inbound{FirstSent: claimed, Attempt: 1, Allowance: 3, Confirm: func() bool {
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
					if !ok || !in.FirstSent.Equal(want.FirstSent) || in.Rerun != want.Rerun || in.Attempt != 1 || in.Confirm != nil {
						t.Errorf("FromContext = %+v, %v, want %+v", in, ok, want)
					}
					in.Retries().Take(1)
				})
			}
			all.Wait()
			require.Equal(t, 1, asked)
			in, _ := wire.FromContext(ctx)
			require.Zero(t, in.Allowance, "they draw on the same retries")
		})
	}
}

// A ctx that passes an Inbound on shares its retries. A ctx with a part of them does not.
func TestInbound_retries(t *testing.T) {
	t.Parallel()
	in := func(ctx context.Context) wire.Inbound {
		in, ok := wire.FromContext(ctx)
		require.True(t, ok)
		return in
	}
	silent := wire.NewContext(t.Context(), wire.Inbound{Allowance: -1})
	require.Nil(t, in(silent).Retries())
	require.Equal(t, -1, in(silent).Allowance)
	require.Nil(t, in(wire.NewContext(t.Context(), in(silent))).Retries())

	request := wire.NewContext(t.Context(), wire.Inbound{Allowance: 5})
	handler := wire.NewContext(request, in(request))
	require.True(t, in(handler).Retries().Take(2))
	require.Equal(t, 3, in(request).Allowance)

	apart := in(request)
	apart.Allowance = 1
	branch := wire.NewContext(request, apart)
	require.True(t, in(branch).Retries().Take(1))
	require.Equal(t, 0, in(branch).Allowance)
	require.Equal(t, 3, in(request).Allowance)
	silenced := in(request)
	silenced.Allowance = -1
	require.Nil(t, in(wire.NewContext(request, silenced)).Retries())
}

func TestRetries(t *testing.T) {
	t.Parallel()
	r := wire.NewRetries(5)
	require.True(t, r.Take(3))
	require.False(t, r.Take(3), "all or nothing")
	require.Equal(t, 2, r.Left())
	require.Equal(t, 2, r.TakeUpTo(3))
	require.Zero(t, r.TakeUpTo(3))
	require.True(t, r.Take(0))
	r.Give(4)
	r.Give(-1)
	require.Equal(t, 4, r.Left())
	require.Zero(t, wire.NewRetries(-3).Left())

	var none *wire.Retries
	none.Give(1)
	require.Zero(t, none.Left())
	require.Zero(t, none.TakeUpTo(1))
	require.False(t, none.Take(1))
}

// A part grants at most its number, and all parts together at most the whole.
func TestRetries_parts(t *testing.T) {
	t.Parallel()
	all := wire.NewRetries(5)
	a, b := all.Part(3), all.Part(3)
	require.False(t, a.Take(4))
	require.True(t, a.Take(3))
	require.Equal(t, 2, b.Left(), "more are not there")
	require.Equal(t, 2, b.TakeUpTo(3))
	require.False(t, b.Take(1))
	require.Zero(t, all.Left())
	a.Give(1)
	require.Equal(t, []int{1, 1, 1}, []int{a.Left(), b.Left(), all.Left()})
	require.True(t, b.Take(1))
	require.False(t, a.Take(1))
	part := a.Part(2) // of a part
	require.Zero(t, part.Left())
	b.Give(3)
	require.Equal(t, 1, part.TakeUpTo(2), "a had one left")

	in, _ := wire.FromContext(wire.NewContext(t.Context(), wire.Inbound{Allowance: 4}))
	ctx := wire.NewContext(t.Context(), in.Part(2))
	branch, _ := wire.FromContext(ctx)
	require.Equal(t, 2, branch.Allowance)
	require.True(t, branch.Retries().Take(1))
	require.Equal(t, 3, in.Retries().Left())
	silent := wire.Inbound{Allowance: -1}
	require.Equal(t, silent, silent.Part(1))
}

func TestRetries_concurrently(t *testing.T) {
	t.Parallel()
	r := wire.NewRetries(100)
	var taken atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			part := r.Part(20)
			for range 50 {
				if part.Take(1) {
					taken.Add(1)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 100, taken.Load())
	require.Zero(t, r.Left())
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

// A request's headers tell the calls that are made for it how many retries and how much
// time they have.
func ExampleParseInbound() {
	h := http.Header{wire.HeaderRetryAttempt: {"2"}, wire.HeaderRetryAllowance: {"3"}}
	in := wire.ParseInbound(h.Values)
	fmt.Println(in.Attempt, in.Allowance, in.Deadline.IsZero())

	ctx := wire.NewContext(context.Background(), in)
	in, _ = wire.FromContext(ctx)
	in.Retries().Take(1) // a call below is retried
	in, _ = wire.FromContext(ctx)
	fmt.Println(in.Allowance)
	// Output:
	// 2 3 true
	// 2
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

// A part that ends leaves its unused retries to the others, and all together get at most the
// whole.
func TestRetries_passOn(t *testing.T) {
	t.Parallel()
	all, strangers := wire.NewRetries(7), wire.NewRetries(7)
	a, b, c, stranger := all.Part(3), all.Part(3), all.Part(3), strangers.Part(1)
	require.True(t, a.Take(1))
	a.PassOn([]*wire.Retries{a, nil, b, stranger, all})
	require.Zero(t, a.Left())
	require.Equal(t, 5, b.Left())
	require.Equal(t, 3, c.Left())
	require.Equal(t, 1, stranger.Left())
	require.Equal(t, 6, all.Left())
	b.PassOn([]*wire.Retries{c})
	require.Equal(t, 6, c.Left(), "it may take 8, and there are 6")
	c.PassOn(nil)
	require.Equal(t, 6, c.Left(), "there is nobody to have them")
	require.Equal(t, 6, c.TakeUpTo(8))
	require.Zero(t, all.Left())
	all.PassOn([]*wire.Retries{a})
	(*wire.Retries)(nil).PassOn([]*wire.Retries{a})
	require.Zero(t, a.Left())
}

// The first part gets the odd retry.
func TestRetries_passOnShares(t *testing.T) {
	t.Parallel()
	all := wire.NewRetries(9)
	a, b, c := all.Part(5), all.Part(0), all.Part(0)
	a.PassOn([]*wire.Retries{b, c})
	require.Equal(t, 3, b.Left())
	require.Equal(t, 2, c.Left())
}
