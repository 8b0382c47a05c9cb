package sdkgrpc_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk/sdkgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
)

var calls = flag.Int("sdkgrpc.calls", 500, "calls of each door in TestGateway")

func line(sku string) *stockpb.ReserveRequest {
	return &stockpb.ReserveRequest{Sku: sku, Quantity: 2, Labels: map[string]string{"a": "1", "b": "2", "c": "3"}}
}

// The same code under the same parent key is one call, whichever door it takes.
func TestDoors_oneCall(t *testing.T) {
	t.Parallel()
	s := new(stock)
	overGRPC, overConnect := listen(t, s)
	for _, d := range doors(t, overGRPC, overConnect, insistent) {
		for range 2 {
			got, err := d.call(under(t.Context(), d.name[:4]+"-"+strconv.Itoa(len(d.name))), line(d.name))
			require.NoError(t, err, d.name)
			require.Equal(t, d.name, got.GetSku())
		}
	}
	s.requireOnce(t, 4)
}

// All doors derive one key, so that a service may change its door.
func TestDoors_oneKey(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := make(map[string]bool)
	s := &stock{reserve: func(ctx context.Context, _ *stockpb.ReserveRequest) (error, bool) {
		md, _ := metadata.FromIncomingContext(ctx)
		mu.Lock()
		defer mu.Unlock()
		keys[fmt.Sprint(md.Get("idempotency-key"), md.Get("retry-attempt"), len(md.Get("retry-allowance")), md.Get("sdkgrpc-call"))] = true
		return nil, true
	}}
	addr := listenGRPC(t, s)
	all := doors(t, addr, addr, unguarded(insistent))
	for _, i := range []int{0, 2} { // the service is grpc-go's
		_, err := all[i].call(under(t.Context(), "order-1"), line("tea"))
		require.NoError(t, err)
	}
	child, err := all[0].client.ChildKey(childkey.MustParse("order-1"), "stock", "fanonce.stock.v1.Stock/Reserve")
	require.NoError(t, err)
	require.Equal(t, map[string]bool{fmt.Sprintf(`["%s"] [1] 1 []`, child): true}, keys)
}

// A gateway loses answers. Every call ends well, and takes effect once.
func TestGateway(t *testing.T) {
	t.Parallel()
	s := new(stock)
	overGRPC, overConnect := listen(t, s)
	one, two := newGateway(t, overGRPC, 0.03), newGateway(t, overConnect, 0.1)
	all := doors(t, one.addr, two.addr, insistent)
	work := make(chan func())
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for call := range work {
				call()
			}
		})
	}
	for n := range *calls {
		for i, d := range all {
			work <- func() {
				sku := fmt.Sprintf("%d-%d", i, n)
				if got, err := d.call(under(t.Context(), sku), line(sku)); err != nil || got.GetSku() != sku {
					t.Errorf("%s: call %d = %v, %v", d.name, n, got, err)
				}
			}
		}
	}
	close(work)
	workers.Wait()
	s.requireOnce(t, *calls*len(all))
	t.Logf("%d calls, %d and %d connections cut", *calls*len(all), one.lost(), two.lost())
	require.Positive(t, one.lost())
	require.Positive(t, two.lost())
}

// A stored status comes back with its details, from each door and after each retry.
func TestDoors_storedStatus(t *testing.T) {
	t.Parallel()
	runs := 0
	s := &stock{reserve: func(context.Context, *stockpb.ReserveRequest) (error, bool) {
		runs++
		refused, err := status.New(codes.FailedPrecondition, "sold out").WithDetails(
			&errdetails.ErrorInfo{Reason: "SOLD_OUT", Domain: "stock.example"}, &errdetails.ResourceInfo{ResourceName: "tea"})
		if err != nil {
			return err, true
		}
		return refused.Err(), true
	}}
	addr := listenGRPC(t, s, newGuarded(t).ServerOptions()...)
	all := doors(t, addr, addr, insistent)
	for _, i := range []int{0, 2, 0, 2} {
		_, err := all[i].call(under(t.Context(), "order-1"), line("tea"))
		require.Error(t, err)
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, retry.Rejected, failed.Outcome)
		require.EqualValues(t, "SOLD_OUT", failed.Code)
		require.Equal(t, "sold out", failed.Detail)
		got := sdkgrpc.Status(err)
		require.NotNil(t, got)
		require.Equal(t, codes.FailedPrecondition, got.Code())
		require.Equal(t, "sold out", got.Message())
		require.Equal(t, "tea", got.Details()[1].(*errdetails.ResourceInfo).GetResourceName())
		if i == 2 {
			require.Equal(t, codes.FailedPrecondition, status.Code(err), "for code that knows gRPC alone")
		}
	}
	require.Equal(t, 1, runs)
}

// Two calls of one method under one parent key need discriminators.
func TestDoors_duplicateChild(t *testing.T) {
	t.Parallel()
	s := new(stock)
	overGRPC, overConnect := listen(t, s)
	for _, d := range doors(t, overGRPC, overConnect, insistent)[2:] {
		ctx := under(t.Context(), d.name[len(d.name)-7:])
		_, err := d.call(ctx, line(d.name))
		require.NoError(t, err)
		_, err = d.call(ctx, line("other"))
		require.ErrorIs(t, err, childkey.ErrDuplicateChild)
		require.Equal(t, codes.Internal, status.Code(err))
		_, err = d.call(sdkgrpc.WithCall(ctx, sdkgrpc.CallInfo{Discriminators: []string{"line-2"}}), line(d.name+"-2"))
		require.NoError(t, err)
	}
	s.requireOnce(t, 4)
}

func TestDoors_noParentKey(t *testing.T) {
	t.Parallel()
	s := new(stock)
	overGRPC, overConnect := listen(t, s)
	for _, d := range doors(t, overGRPC, overConnect, insistent) {
		_, err := d.call(t.Context(), line("tea"))
		var failed *retry.Error
		require.True(t, errors.As(err, &failed), d.name)
		require.Equal(t, retry.NotSent, failed.Outcome)
	}
	s.requireOnce(t, 0)
}

// A service that forwards the headers that it got does not forward its own key.
func TestDoors_forwardedHeaders(t *testing.T) {
	t.Parallel()
	forwarded := metadata.Pairs("x-request-id", "r-1", "idempotency-key", "inbound", "idempotency-cancels", `"inbound"`,
		"idempotency-first-sent", "no time", "retry-attempt", "99", "request-timeout-ms", "1")
	var seen atomic.Value
	s := &stock{reserve: func(ctx context.Context, _ *stockpb.ReserveRequest) (error, bool) {
		md, _ := metadata.FromIncomingContext(ctx)
		seen.Store(md)
		return nil, false
	}}
	overGRPC, overConnect := listen(t, s)
	for i, d := range doors(t, overGRPC, overConnect, insistent) {
		if i == 1 || i == 3 {
			continue // connect has no outgoing metadata
		}
		ctx := metadata.NewOutgoingContext(under(t.Context(), "order-1-"+strconv.Itoa(i)), forwarded)
		_, err := d.call(ctx, line("tea"))
		require.NoError(t, err, d.name)
		md := seen.Load().(metadata.MD)
		require.Equal(t, []string{"r-1"}, md.Get("x-request-id"))
		require.Len(t, md.Get("idempotency-key"), 1)
		require.Empty(t, md.Get("idempotency-cancels"))
		require.Equal(t, []string{"1"}, md.Get("retry-attempt"))
	}
}
