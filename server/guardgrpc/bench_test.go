package guardgrpc_test

import (
	"context"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
)

// The interceptor's own cost is the guarded call less the call whose handler calls server.Do by hand. With
// -benchtime 20000x -count 22 they alternate.
func BenchmarkUnary(b *testing.B) {
	b.Run("plain", func(b *testing.B) { benchmarkCalls(b, new(stock)) })
	b.Run("by hand", func(b *testing.B) { benchmarkCalls(b, &byHand{guard: newGuard(b, server.Config{})}) })
	b.Run("guarded", func(b *testing.B) {
		i, err := guardgrpc.New(newGuard(b, server.Config{}), config(server.Keyed))
		require.NoError(b, err)
		benchmarkCalls(b, new(stock), i.ServerOptions()...)
	})
	b.Run("Do", benchmarkDo)
}

func benchmarkCalls(b *testing.B, service stockpb.StockServer, options ...grpc.ServerOption) {
	b.Helper()
	l := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(options...)
	stockpb.RegisterStockServer(srv, service)
	go srv.Serve(l) //nolint:errcheck // Stop ends it
	b.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	client := stockpb.NewStockClient(conn)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		ctx := metadata.AppendToOutgoingContext(b.Context(), key, strconv.Itoa(n))
		if _, err := client.Reserve(ctx, tea()); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkDo(b *testing.B) {
	s := &byHand{guard: newGuard(b, server.Config{})}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		if _, err := s.do(b.Context(), strconv.Itoa(n), tea()); err != nil {
			b.Fatal(err)
		}
	}
}

// byHand is a service without the interceptor: its handler reads the key and calls server.Do.
type byHand struct {
	stock
	guard *server.Guard
}

func (s *byHand) Reserve(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	return s.do(ctx, md.Get(key)[0], in)
}

func (s *byHand) do(ctx context.Context, text string, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
	parsed, err := childkey.Parse(text)
	if err != nil {
		return nil, err
	}
	task := server.Task{Name: "reserve", Scope: "unscoped", Effect: server.Keyed}
	out, _, err := server.Do(ctx, s.guard, task, parsed, input{Sku: in.Sku, Quantity: in.Quantity},
		func(ctx context.Context, in input) (output, error) {
			hold, err := s.stock.Reserve(ctx, &stockpb.ReserveRequest{Sku: in.Sku})
			return output{hold.GetId(), hold.GetSku()}, err
		})
	if err != nil {
		return nil, err
	}
	return &stockpb.Hold{Id: out.ID, Sku: out.Sku}, nil
}

// The messages of the stock as server.Do has them.
type (
	input struct {
		Sku      string
		Quantity int64
	}
	output struct {
		ID  int64
		Sku string
	}
)
