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

// The interceptor's own cost is the guarded call less the plain call, less server.Do. Run it as
// README.md says: the three alternate.
func BenchmarkUnary(b *testing.B) {
	b.Run("plain", func(b *testing.B) { benchmarkCalls(b, nil) })
	b.Run("guarded", func(b *testing.B) {
		i, err := guardgrpc.New(newGuard(b, server.Config{}), config(server.Keyed))
		require.NoError(b, err)
		benchmarkCalls(b, i.ServerOptions())
	})
	b.Run("Do", benchmarkDo)
}

func benchmarkCalls(b *testing.B, options []grpc.ServerOption) {
	b.Helper()
	l := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(options...)
	stockpb.RegisterStockServer(srv, new(stock))
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
	g := newGuard(b, server.Config{})
	task := server.Task{Name: "reserve", Scope: "unscoped", Effect: server.Keyed}
	s := new(stock)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		_, _, err := server.Do(b.Context(), g, task, childkey.MustParse(strconv.Itoa(n)), input{Sku: "tea", Quantity: 2},
			func(ctx context.Context, in input) (output, error) {
				hold, err := s.Reserve(ctx, &stockpb.ReserveRequest{Sku: in.Sku})
				return output{hold.GetId(), hold.GetSku()}, err
			})
		if err != nil {
			b.Fatal(err)
		}
	}
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
