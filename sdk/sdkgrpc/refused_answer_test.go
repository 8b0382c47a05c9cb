package sdkgrpc_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdkgrpc"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/memstore"
)

// A longStock answers with more than its callers take.
type longStock struct {
	stockpb.UnimplementedStockServer
	holds, released atomic.Int64
}

func (s *longStock) Reserve(context.Context, *stockpb.ReserveRequest) (*stockpb.Hold, error) {
	s.holds.Add(1)
	return &stockpb.Hold{Id: 1, Sku: strings.Repeat("x", 200)}, nil
}

func (s *longStock) Release(ctx context.Context, _ *stockpb.ReleaseRequest) (*emptypb.Empty, error) {
	if _, err := server.Barrier(ctx); err != nil {
		return nil, err
	}
	s.released.Add(1)
	return &emptypb.Empty{}, nil
}

// serveGuarded serves s behind a guard, and returns a client of it.
func (s *longStock) serveGuarded(t *testing.T, options ...grpc.DialOption) *sdk.Client {
	t.Helper()
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(t, err)
	guarded, err := guardgrpc.New(guard, guardgrpc.Config{Scope: guardgrpc.Unscoped, Methods: map[string]guardgrpc.Method{
		stockpb.Stock_Reserve_FullMethodName: {Effect: server.Keyed},
		stockpb.Stock_Release_FullMethodName: {Effect: server.Keyed},
	}})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer(guarded.ServerOptions()...)
	stockpb.RegisterStockServer(srv, s)
	go srv.Serve(listener) //nolint:errcheck // Stop ends it
	t.Cleanup(srv.Stop)
	options = append(append(sdkgrpc.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials())), options...)
	conn, err := grpc.NewClient("dns:///"+listener.Addr().String(), options...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	service, err := sdkgrpc.Service(conn, four())
	return newClient(t, service, err)
}

// TestSaga_undoesWhatIsTooLong has a saga undo the call whose answer its client does not take.
func TestSaga_undoesWhatIsTooLong(t *testing.T) {
	t.Parallel()
	type in = sdkgrpc.JSON[*stockpb.ReserveRequest]
	type out = sdkgrpc.JSON[*stockpb.Hold]
	reserve := sdkgrpc.Method[in, out]("stock", stockpb.Stock_Reserve_FullMethodName)
	release := sdkgrpc.UndoMethod("stock", stockpb.Stock_Release_FullMethodName,
		func(contract.Undo[in, out]) *stockpb.ReleaseRequest { return &stockpb.ReleaseRequest{} })
	s := new(longStock)
	client := s.serveGuarded(t, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(100)))
	order := saga.MustDefine("order", 1, func(b *saga.Builder[string, out]) {
		item := saga.Map(b.Input(), func(sku string) in { return in{&stockpb.ReserveRequest{Sku: sku, Quantity: 1}} })
		saga.Return(b, saga.Step(b, reserve, item).Undo(release).Output())
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	engine, err := saga.Open(ctx, memjournal.New(), saga.Config{Client: client, Definitions: []saga.AnyDefinition{order}})
	require.NoError(t, err)
	defer engine.Close(context.Background()) //nolint:errcheck // a test
	_, err = order.Run(ctx, engine, childkey.MustParse("order-1"), "tea")
	require.Error(t, err)
	require.EqualValues(t, 1, s.holds.Load())
	require.EqualValues(t, 1, s.released.Load(), "%v", err)
}
