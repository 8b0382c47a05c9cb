package sdkgrpc_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdkgrpc"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/memstore"
)

// Reserve is the operation. It belongs in a package that callers and callee share.
var Reserve = sdkgrpc.Method[*stockpb.ReserveRequest, *stockpb.Hold]("stock", stockpb.Stock_Reserve_FullMethodName)

// An operation over gRPC is called as one over HTTP, in fan-outs too.
func ExampleService() {
	target, stop := startShelf()
	defer stop()

	options := append(sdkgrpc.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	stock, err := sdkgrpc.Service(conn, retry.Config{Timeout: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"stock": stock}})
	if err != nil {
		log.Fatal(err)
	}

	ctx := childkey.NewContext(context.Background(), childkey.MustParse("order-1")) // a guarded handler's ctx has a key
	for range 2 {                                                                   // the second run of the same code finds the first
		fan := client.Fanout(ctx)
		tea := sdk.Add(fan, Reserve.For("line-1"), &stockpb.ReserveRequest{Sku: "tea"})
		cup := sdk.Add(fan, Reserve.For("line-2"), &stockpb.ReserveRequest{Sku: "cup"})
		fmt.Println(fan.Wait())
		first, _ := tea.Get(ctx)
		second, _ := cup.Get(ctx)
		fmt.Println(first.GetSku(), second.GetSku(), first.GetId()+second.GetId())
	}
	_, err = sdk.Call(ctx, client, Reserve, &stockpb.ReserveRequest{Sku: "gold"})
	fmt.Println(sdk.Resumable(err), sdkgrpc.Status(err).Message())
	// Output:
	// <nil>
	// tea cup 3
	// <nil>
	// tea cup 3
	// false no such goods
}

// A generated client gets its keys and retries from an interceptor.
func ExampleUnaryClientInterceptor() {
	target, stop := startShelf()
	defer stop()

	stock, err := sdkgrpc.Service(nil, retry.Config{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"stock": stock}})
	if err != nil {
		log.Fatal(err)
	}
	unary, err := sdkgrpc.UnaryClientInterceptor(client, "stock")
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient(target, append(sdkgrpc.DialOptions(),
		grpc.WithChainUnaryInterceptor(unary), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	stub := stockpb.NewStockClient(conn)
	ctx := childkey.NewContext(context.Background(), childkey.MustParse("order-1"))
	for range 2 {
		hold, err := stub.Reserve(ctx, &stockpb.ReserveRequest{Sku: "tea"})
		fmt.Println(hold.GetId(), err)
	}
	other := sdkgrpc.WithCall(ctx, sdkgrpc.CallInfo{Discriminators: []string{"line-2"}})
	_, err = stub.Reserve(other, &stockpb.ReserveRequest{Sku: "gold"})
	fmt.Println(status.Code(err))
	// Output:
	// 1 <nil>
	// 1 <nil>
	// NotFound
}

// A shelf is a guarded service in memory.
type shelf struct {
	stockpb.UnimplementedStockServer
	ids      atomic.Int64
	reserved atomic.Int64
}

func (s *shelf) Reserve(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
	if in.GetSku() == "gold" {
		return nil, status.Error(codes.NotFound, "no such goods")
	}
	hold := &stockpb.Hold{Sku: in.GetSku(), Id: s.ids.Add(1)}
	return hold, memstore.Tx(ctx).Do(func() { s.reserved.Add(1) }) // once, with the answer
}

func startShelf() (target string, stop func()) {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		log.Fatal(err)
	}
	guarded, err := guardgrpc.New(guard, guardgrpc.Config{Scope: guardgrpc.Unscoped, Methods: map[string]guardgrpc.Method{
		stockpb.Stock_Reserve_FullMethodName: {Effect: server.Transactional},
		stockpb.Stock_Release_FullMethodName: {Effect: server.Transactional},
	}})
	if err != nil {
		log.Fatal(err)
	}
	srv := grpc.NewServer(guarded.ServerOptions()...)
	stockpb.RegisterStockServer(srv, new(shelf))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(l) //nolint:errcheck // Stop ends it
	return l.Addr().String(), srv.Stop
}
