package guardgrpc_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb/stockpbconnect"
	"github.com/fanonce/fanonce/server/memstore"
)

// A shelf is a service with effects. In production they are in Postgres, by pgstore.Tx.
type shelf struct {
	stockpb.UnimplementedStockServer
	reserved int64
}

func (s *shelf) Reserve(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
	if in.GetSku() != "tea" {
		return nil, status.Error(codes.NotFound, "no such goods") // stored: every repetition gets it
	}
	return &stockpb.Hold{Id: s.reserved + 1}, memstore.Tx(ctx).Do(func() { s.reserved++ })
}

// guardShelf guards the shelf's methods.
func guardShelf() *guardgrpc.Interceptor {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		log.Fatal(err)
	}
	i, err := guardgrpc.New(guard, guardgrpc.Config{
		Scope: guardgrpc.Unscoped, // in production: the authenticated tenant
		Methods: map[string]guardgrpc.Method{
			stockpb.Stock_Reserve_FullMethodName: {Effect: server.Transactional, KeyField: "request_id"},
			stockpb.Stock_Release_FullMethodName: {Effect: server.Transactional},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	return i
}

func ExampleInterceptor_ServerOptions() {
	guarded := guardShelf()
	srv := grpc.NewServer(guarded.ServerOptions()...)
	stockpb.RegisterStockServer(srv, new(shelf))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(l) //nolint:errcheck // Stop ends it
	defer srv.Stop()

	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client := stockpb.NewStockClient(conn)
	ctx := metadata.AppendToOutgoingContext(context.Background(), "idempotency-key", "order-1")
	for range 2 {
		var header metadata.MD
		hold, err := client.Reserve(ctx, &stockpb.ReserveRequest{Sku: "tea"}, grpc.Header(&header))
		fmt.Println(hold.GetId(), err, "replayed:", header.Get("idempotent-replayed"))
	}
	_, err = client.Reserve(ctx, &stockpb.ReserveRequest{Sku: "coffee"})
	fmt.Println(err)
	// Output:
	// 1 <nil> replayed: [false]
	// 1 <nil> replayed: [true]
	// rpc error: code = FailedPrecondition desc = The key was used with another request
}

// An AIP-155 request_id is a key.
func ExampleMethod_keyField() {
	guarded := guardShelf()
	mux := http.NewServeMux()
	mux.Handle(stockpbconnect.NewStockHandler(connectShelf{shelf: new(shelf)}, connect.WithInterceptors(guarded)))
	web := httptest.NewServer(mux)
	defer web.Close()

	client := stockpbconnect.NewStockClient(web.Client(), web.URL)
	for range 2 {
		in := &stockpb.ReserveRequest{Sku: "tea", RequestId: "0b9e4b2c-5a0e-4f6e-9b1a-0d1f0e2d3c4b"}
		out, err := client.Reserve(context.Background(), connect.NewRequest(in))
		fmt.Println(out.Msg.GetId(), err, "replayed:", out.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// 1 <nil> replayed: false
	// 1 <nil> replayed: true
}

// connectShelf is the shelf as a connect handler.
type connectShelf struct {
	stockpbconnect.UnimplementedStockHandler
	shelf *shelf
}

func (s connectShelf) Reserve(ctx context.Context, in *connect.Request[stockpb.ReserveRequest]) (*connect.Response[stockpb.Hold], error) {
	hold, err := s.shelf.Reserve(ctx, in.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(hold), nil
}
