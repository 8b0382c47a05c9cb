package guardgrpc

import (
	"context"
	"strconv"
	"testing"

	"google.golang.org/grpc"
	grpcmetadata "google.golang.org/grpc/metadata"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/memstore"
)

// A sink is the stream of a call that nobody reads.
type sink struct{ grpc.ServerTransportStream }

func (sink) SetHeader(grpcmetadata.MD) error  { return nil }
func (sink) SetTrailer(grpcmetadata.MD) error { return nil }

// The guard and the interceptor without a network: less what server.Do costs (BenchmarkUnary/Do), it is the interceptor.
func BenchmarkInterceptor(b *testing.B) {
	g, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		b.Fatal(err)
	}
	i, err := New(g, Config{Scope: Unscoped, Methods: map[string]Method{
		stockpb.Stock_Reserve_FullMethodName: {Effect: server.Keyed},
		stockpb.Stock_Release_FullMethodName: {Effect: server.Keyed},
	}})
	if err != nil {
		b.Fatal(err)
	}
	info := &grpc.UnaryServerInfo{FullMethod: stockpb.Stock_Reserve_FullMethodName}
	handler := func(context.Context, any) (any, error) { return &stockpb.Hold{Id: 1, Sku: "tea"}, nil }
	n := 0
	b.ReportAllocs()
	base := grpc.NewContextWithServerTransportStream(context.Background(), sink{})
	for b.Loop() {
		n++
		ctx := grpcmetadata.NewIncomingContext(base, grpcmetadata.MD{"idempotency-key": {strconv.Itoa(n)}})
		in := &stockpb.ReserveRequest{Sku: "tea", Quantity: 2, Labels: map[string]string{"a": "1", "b": "2", "c": "3"}}
		if _, err := i.Unary(ctx, in, info, handler); err != nil {
			b.Fatal(err)
		}
	}
}
