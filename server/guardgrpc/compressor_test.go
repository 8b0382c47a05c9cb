package guardgrpc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/memstore"
)

// A compressions notes how the answers came to a client.
type compressions struct {
	stats.Handler
	last atomic.Value // string
}

func (*compressions) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*compressions) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*compressions) HandleConn(context.Context, stats.ConnStats)                       {}
func (c *compressions) HandleRPC(_ context.Context, s stats.RPCStats) {
	if header, ok := s.(*stats.InHeader); ok {
		c.last.Store(header.Compression)
	}
}

// A handler that asks grpc-go about compression gets the answers that it gets without a guard, and its choice counts, but
// not that of a run that is rolled back. The ctx may have passed through other packages.
func TestUnary_compressor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		first  string // the choice of the run that is rolled back
		second string
	}{
		{"none", "", ""},
		{"the answer's", "", gzip.Name},
		{"of a run that is rolled back", gzip.Name, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			s := &stock{reserve: func(ctx context.Context, _ *stockpb.ReserveRequest) (*stockpb.Hold, error) {
				choice := tt.second
				if runs++; runs == 1 {
					choice = tt.first
					_ = memstore.Tx(ctx).Doom()
				}
				return &stockpb.Hold{Id: 1}, compress(ctx, choice)
			}}
			i, err := guardgrpc.New(newGuard(t, server.Config{}), config(server.Transactional))
			require.NoError(t, err)
			seen := new(compressions)
			c := serveGRPCWith(t, s, i.ServerOptions(), grpc.WithStatsHandler(seen))
			got := c.reserve(t.Context(), &stockpb.ReserveRequest{Sku: "tea"}, "idempotency-key", "k")
			require.Nil(t, got.status, "%v", got.status)
			require.Equal(t, 2, runs)
			require.Equal(t, "tea", got.get("x-note"))
			require.Equal(t, tt.second, seen.last.Load())
		})
	}
}

// compress asks grpc-go all that a handler can ask it about its stream, and chooses a compressor. It returns what is wrong.
func compress(ctx context.Context, choice string) error {
	type ownKey struct{}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, ownKey{}, 1))
	defer cancel()
	supported, err := grpc.ClientSupportedCompressors(ctx)
	if err != nil || !slices.Contains(supported, gzip.Name) {
		return fmt.Errorf("the client supports %q, %w", supported, err)
	}
	if err := grpc.SetSendCompressor(ctx, "tea"); err == nil || !strings.Contains(err.Error(), "unable to set send compressor") {
		return fmt.Errorf("a compressor that nobody has: %w", err)
	}
	if method, _ := grpc.Method(ctx); method != stockpb.Stock_Reserve_FullMethodName {
		return fmt.Errorf("the method is %q", method)
	}
	if choice != "" {
		if err := grpc.SetSendCompressor(ctx, choice); err != nil {
			return err
		}
	}
	return grpc.SetHeader(ctx, metadata.Pairs("x-note", "tea"))
}
