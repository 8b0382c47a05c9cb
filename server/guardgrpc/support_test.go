package guardgrpc_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb/stockpbconnect"
	"github.com/fanonce/fanonce/server/memstore"
)

// A stock is the service as both protocols serve it. Its fields replace methods.
type stock struct {
	stockpb.UnimplementedStockServer
	reserve func(context.Context, *stockpb.ReserveRequest) (*stockpb.Hold, error)
	release func(context.Context, *stockpb.ReleaseRequest) error
	calls   atomic.Int64 // of all methods
}

func (s *stock) Reserve(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
	n := s.calls.Add(1)
	if s.reserve != nil {
		return s.reserve(ctx, in)
	}
	return &stockpb.Hold{Id: n, Sku: in.GetSku()}, nil
}

func (s *stock) Release(ctx context.Context, in *stockpb.ReleaseRequest) (*emptypb.Empty, error) {
	s.calls.Add(1)
	if s.release != nil {
		return &emptypb.Empty{}, s.release(ctx, in)
	}
	return &emptypb.Empty{}, nil
}

func (s *stock) Count(context.Context, *stockpb.CountRequest) (*emptypb.Empty, error) {
	s.calls.Add(1)
	return &emptypb.Empty{}, nil
}

func (s *stock) Show(context.Context, *stockpb.ShowRequest) (*stockpb.Hold, error) {
	return &stockpb.Hold{Id: s.calls.Add(1)}, nil
}

func (s *stock) Watch(_ *stockpb.ShowRequest, out grpc.ServerStreamingServer[stockpb.Hold]) error {
	return out.Send(&stockpb.Hold{Id: s.calls.Add(1)})
}

// connectStock is the stock as connect serves it.
type connectStock struct{ *stock }

func (s connectStock) Reserve(ctx context.Context, in *connect.Request[stockpb.ReserveRequest]) (*connect.Response[stockpb.Hold], error) {
	return respond(s.stock.Reserve(ctx, in.Msg))
}

func (s connectStock) Release(ctx context.Context, in *connect.Request[stockpb.ReleaseRequest]) (*connect.Response[emptypb.Empty], error) {
	return respond(s.stock.Release(ctx, in.Msg))
}

func (s connectStock) Count(ctx context.Context, in *connect.Request[stockpb.CountRequest]) (*connect.Response[emptypb.Empty], error) {
	return respond(s.stock.Count(ctx, in.Msg))
}

func (s connectStock) Show(ctx context.Context, in *connect.Request[stockpb.ShowRequest]) (*connect.Response[stockpb.Hold], error) {
	return respond(s.stock.Show(ctx, in.Msg))
}

func (s connectStock) Watch(_ context.Context, _ *connect.Request[stockpb.ShowRequest], out *connect.ServerStream[stockpb.Hold]) error {
	return out.Send(&stockpb.Hold{Id: s.calls.Add(1)})
}

// respond returns what a handler of grpc-go returned as connect has it.
func respond[T any](out *T, err error) (*connect.Response[T], error) {
	if s, ok := status.FromError(err); ok && err != nil {
		failed := connect.NewError(connect.Code(s.Code()), errors.New(s.Message()))
		for _, d := range s.Proto().GetDetails() {
			if detail, err := connect.NewErrorDetail(d); err == nil {
				failed.AddDetail(detail)
			}
		}
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(out), nil
}

func newGuard(tb testing.TB, cfg server.Config) *server.Guard {
	tb.Helper()
	g, err := server.NewGuard(memstore.New(), server.Unscoped, cfg)
	require.NoError(tb, err)
	return g
}

// config guards Reserve and Release.
func config(effect server.Effect) guardgrpc.Config {
	return guardgrpc.Config{Scope: guardgrpc.Unscoped, Methods: map[string]guardgrpc.Method{
		stockpb.Stock_Reserve_FullMethodName: {Effect: effect, KeyField: "request_id"},
		stockpb.Stock_Release_FullMethodName: {Effect: effect},
	}}
}

// A reply is what a caller got: a message, or a status that is not OK.
type reply struct {
	hold   *stockpb.Hold
	status *spb.Status
	md     map[string][]string // header and trailer, in lower case
}

func (r reply) get(name string) string { return strings.Join(r.md[name], "|") }

// reason returns the reason of the ErrorInfo of this library; "" if there is none.
func (r reply) reason() string {
	if info := detail[*errdetails.ErrorInfo](r); info != nil && info.GetDomain() == "fanonce.dev" {
		return info.GetReason()
	}
	return ""
}

func detail[T any](r reply) (none T) {
	for _, d := range r.status.GetDetails() {
		if m, err := d.UnmarshalNew(); err == nil {
			if t, ok := m.(T); ok {
				return t
			}
		}
	}
	return none
}

// A caller calls the stock in one protocol. md has names and values in turn.
type caller struct {
	reserve func(ctx context.Context, in *stockpb.ReserveRequest, md ...string) reply
	release func(ctx context.Context, in *stockpb.ReleaseRequest, md ...string) reply
	count   func(ctx context.Context, in *stockpb.CountRequest, md ...string) reply
	show    func(ctx context.Context, in *stockpb.ShowRequest, md ...string) reply
	watch   func(ctx context.Context, in *stockpb.ShowRequest, md ...string) reply
}

// protocols are the ways to call a guarded service over a real socket.
var protocols = []struct {
	name  string
	serve func(testing.TB, *guardgrpc.Interceptor, *stock) caller
}{
	{"grpc-go", serveGRPC},
	{"connect", func(tb testing.TB, i *guardgrpc.Interceptor, s *stock) caller { return serveConnect(tb, i, s) }},
	{"connect, JSON", func(tb testing.TB, i *guardgrpc.Interceptor, s *stock) caller {
		return serveConnect(tb, i, s, connect.WithProtoJSON())
	}},
	{"connect, gRPC", func(tb testing.TB, i *guardgrpc.Interceptor, s *stock) caller {
		return serveConnect(tb, i, s, connect.WithGRPC())
	}},
}

// inEach runs test in each protocol, with a service of its own.
func inEach(t *testing.T, guard server.Config, cfg guardgrpc.Config, test func(*testing.T, caller, *stock)) {
	t.Helper()
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			i, err := guardgrpc.New(newGuard(t, guard), cfg)
			require.NoError(t, err)
			s := new(stock)
			test(t, p.serve(t, i, s), s)
		})
	}
}

func serveGRPC(tb testing.TB, i *guardgrpc.Interceptor, s *stock) caller {
	tb.Helper()
	return serveGRPCWith(tb, s, i.ServerOptions())
}

// serveGRPCWith serves s with options, to a client with further ones.
func serveGRPCWith(tb testing.TB, s *stock, options []grpc.ServerOption, dial ...grpc.DialOption) caller {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	srv := grpc.NewServer(options...)
	stockpb.RegisterStockServer(srv, s)
	go srv.Serve(l) //nolint:errcheck // Stop ends it
	tb.Cleanup(srv.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	c := stockpb.NewStockClient(conn)
	return caller{
		reserve: overGRPC(c.Reserve), release: overGRPC(c.Release), count: overGRPC(c.Count), show: overGRPC(c.Show),
		watch: func(ctx context.Context, in *stockpb.ShowRequest, md ...string) reply {
			down, err := c.Watch(metadata.NewOutgoingContext(ctx, metadata.Pairs(md...)), in)
			if err != nil {
				return reply{status: status.Convert(err).Proto()}
			}
			out, err := down.Recv()
			return reply{hold: out, status: status.Convert(err).Proto(), md: down.Trailer()}
		},
	}
}

func overGRPC[In, Out any](call func(context.Context, *In, ...grpc.CallOption) (*Out, error)) func(context.Context, *In, ...string) reply {
	return func(ctx context.Context, in *In, md ...string) reply {
		var header, trailer metadata.MD
		out, err := call(metadata.NewOutgoingContext(ctx, metadata.Pairs(md...)), in, grpc.Header(&header), grpc.Trailer(&trailer))
		r := reply{md: metadata.Join(header, trailer)}
		if err != nil {
			r.status = status.Convert(err).Proto()
			return r
		}
		r.hold, _ = any(out).(*stockpb.Hold)
		return r
	}
}

func serveConnect(tb testing.TB, i *guardgrpc.Interceptor, s *stock, options ...connect.ClientOption) caller {
	tb.Helper()
	return serveConnectWith(tb, connectStock{s}, []connect.Interceptor{i}, options...)
}

// serveConnectWith serves s behind interceptors, the first of which is the outermost. Panics are not logged.
func serveConnectWith(tb testing.TB, s stockpbconnect.StockHandler, interceptors []connect.Interceptor, options ...connect.ClientOption) caller {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	mux := http.NewServeMux()
	mux.Handle(stockpbconnect.NewStockHandler(s, connect.WithInterceptors(interceptors...)))
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	srv := &http.Server{Handler: mux, Protocols: both, ErrorLog: log.New(io.Discard, "", 0)} //nolint:gosec // a test
	go srv.Serve(l)                                                                          //nolint:errcheck // Close ends it
	tb.Cleanup(func() { _ = srv.Close() })
	two := new(http.Protocols)
	two.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: two}
	tb.Cleanup(transport.CloseIdleConnections)
	c := stockpbconnect.NewStockClient(&http.Client{Transport: transport}, "http://"+l.Addr().String(), options...)
	return caller{
		reserve: overConnect(c.Reserve), release: overConnect(c.Release), count: overConnect(c.Count), show: overConnect(c.Show),
		watch: func(ctx context.Context, in *stockpb.ShowRequest, md ...string) reply {
			req := connect.NewRequest(in)
			for pair := range slices.Chunk(md, 2) {
				req.Header().Add(pair[0], pair[1])
			}
			down, err := c.Watch(ctx, req)
			if err != nil {
				return failedReply(err)
			}
			if !down.Receive() {
				return failedReply(down.Err())
			}
			return reply{hold: down.Msg()}
		},
	}
}

func overConnect[In, Out any](call func(context.Context, *connect.Request[In]) (*connect.Response[Out], error)) func(context.Context, *In, ...string) reply {
	return func(ctx context.Context, in *In, md ...string) reply {
		req := connect.NewRequest(in)
		for pair := range slices.Chunk(md, 2) {
			req.Header().Add(pair[0], pair[1])
		}
		out, err := call(ctx, req)
		if err != nil {
			return failedReply(err)
		}
		r := reply{md: lowerCase(out.Header(), out.Trailer())}
		r.hold, _ = any(out.Msg).(*stockpb.Hold)
		return r
	}
}

func failedReply(err error) reply {
	failed := new(connect.Error)
	if !errors.As(err, &failed) {
		return reply{status: &spb.Status{Code: 2, Message: err.Error()}}
	}
	r := reply{status: &spb.Status{Code: int32(failed.Code()), Message: failed.Message()}, md: lowerCase(failed.Meta())}
	for _, d := range failed.Details() {
		r.status.Details = append(r.status.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	return r
}

func lowerCase(headers ...http.Header) map[string][]string {
	md := make(map[string][]string)
	for _, h := range headers {
		for name, values := range h {
			md[strings.ToLower(name)] = append(md[strings.ToLower(name)], values...)
		}
	}
	return md
}
