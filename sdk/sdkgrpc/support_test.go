package sdkgrpc_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdkgrpc"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb/stockpbconnect"
	"github.com/fanonce/fanonce/server/memstore"
)

// The stock's operations, as a package would declare them that caller and callee share.
var (
	reserve = sdkgrpc.Method[*stockpb.ReserveRequest, *stockpb.Hold]("stock", stockpb.Stock_Reserve_FullMethodName)
	release = sdkgrpc.UndoMethod("stock", stockpb.Stock_Release_FullMethodName,
		func(u contract.Undo[*stockpb.ReserveRequest, *stockpb.Hold]) *stockpb.ReleaseRequest {
			r := &stockpb.ReleaseRequest{Reserve: u.Input}
			if u.Output != nil {
				r.Hold = *u.Output
			}
			return r
		})
)

// A stock counts effects by request: there must be one for each.
type stock struct {
	stockpb.UnimplementedStockServer
	mu       sync.Mutex
	effects  map[string]int                                               // by sku
	released map[string]int                                               // by sku
	reserve  func(context.Context, *stockpb.ReserveRequest) (error, bool) // replaces the effect if it returns true
}

func (s *stock) Reserve(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
	if s.reserve != nil {
		if err, done := s.reserve(ctx, in); done {
			return &stockpb.Hold{Sku: in.GetSku()}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.effects == nil {
		s.effects = make(map[string]int)
	}
	s.effects[in.GetSku()]++
	return &stockpb.Hold{Id: int64(len(s.effects)), Sku: in.GetSku()}, nil
}

func (s *stock) Release(ctx context.Context, in *stockpb.ReleaseRequest) (*emptypb.Empty, error) {
	if _, err := server.Barrier(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released == nil {
		s.released = make(map[string]int)
	}
	s.released[in.GetReserve().GetSku()]++
	return &emptypb.Empty{}, nil
}

// requireOnce fails unless there are n requests, each with one effect.
func (s *stock) requireOnce(t *testing.T, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.effects, n)
	for sku, effects := range s.effects {
		require.Equal(t, 1, effects, "effects of %s", sku)
	}
}

// connectStock is the stock as connect serves it.
type connectStock struct {
	stockpbconnect.UnimplementedStockHandler
	stock *stock
}

func (s connectStock) Reserve(ctx context.Context, in *connect.Request[stockpb.ReserveRequest]) (*connect.Response[stockpb.Hold], error) {
	out, err := s.stock.Reserve(ctx, in.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(out), nil
}

func (s connectStock) Release(ctx context.Context, in *connect.Request[stockpb.ReleaseRequest]) (*connect.Response[emptypb.Empty], error) {
	out, err := s.stock.Release(ctx, in.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(out), nil
}

func newGuarded(tb testing.TB) *guardgrpc.Interceptor {
	tb.Helper()
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(tb, err)
	i, err := guardgrpc.New(guard, guardgrpc.Config{Scope: guardgrpc.Unscoped, Methods: map[string]guardgrpc.Method{
		stockpb.Stock_Reserve_FullMethodName: {Effect: server.Keyed},
		stockpb.Stock_Release_FullMethodName: {Effect: server.Keyed},
	}})
	require.NoError(tb, err)
	return i
}

// listen serves the stock in both protocols, and returns the addresses.
func listen(tb testing.TB, s *stock) (overGRPC, overConnect string) {
	tb.Helper()
	i := newGuarded(tb)
	return listenGRPC(tb, s, i.ServerOptions()...), listenConnect(tb, s, connect.WithInterceptors(i))
}

func listenGRPC(tb testing.TB, s stockpb.StockServer, options ...grpc.ServerOption) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	srv := grpc.NewServer(options...)
	if s != nil {
		stockpb.RegisterStockServer(srv, s)
	}
	go srv.Serve(l) //nolint:errcheck // Stop ends it
	tb.Cleanup(srv.Stop)
	return l.Addr().String()
}

func listenConnect(tb testing.TB, s *stock, options ...connect.HandlerOption) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	mux := http.NewServeMux()
	mux.Handle(stockpbconnect.NewStockHandler(connectStock{stock: s}, options...))
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	srv := &http.Server{Handler: mux, Protocols: both} //nolint:gosec // a test
	go srv.Serve(l)                                    //nolint:errcheck // Close ends it
	tb.Cleanup(func() { _ = srv.Close() })
	return l.Addr().String()
}

// dial connects to addr, and comes back soon after a connection broke.
func dial(tb testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	quick := backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.5, MaxDelay: 50 * time.Millisecond}
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}))
	conn, err := grpc.NewClient(addr, append(options, sdkgrpc.DialOptions()...)...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// insistent is a policy that tries often and soon.
func insistent() retry.Config {
	wait := retry.Backoff{Base: time.Millisecond, Cap: 20 * time.Millisecond}
	return retry.Config{MaxAttempts: 17, Backoff: wait, Poll: wait, Timeout: time.Minute, AttemptTimeout: 10 * time.Second, Budget: plenty()}
}

// unguarded returns policy for a service without a guard.
func unguarded(policy func() retry.Config) func() retry.Config {
	return func() retry.Config {
		c := policy()
		c.Profile = retry.Unguarded()
		return c
	}
}

func plenty() *retry.Budget {
	return &retry.Budget{Ratio: 1, Reserve: 100_000}
}

func newClient(tb testing.TB, service sdk.Service, err error) *sdk.Client {
	tb.Helper()
	require.NoError(tb, err)
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"stock": service}})
	require.NoError(tb, err)
	tb.Cleanup(client.Close)
	return client
}

type callFunc func(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error)

// A door is one way in which a caller's code calls the stock.
type door struct {
	name   string
	client *sdk.Client
	call   callFunc
}

// doors opens all four: an operation and a generated client, over gRPC and over connect.
func doors(tb testing.TB, overGRPC, overConnect string, policy func() retry.Config) []door {
	tb.Helper()
	service, err := sdkgrpc.Service(dial(tb, overGRPC), policy())
	operation := newClient(tb, service, err)
	service, err = sdkgrpc.ConnectService("http://"+overConnect, policy())
	plain := newClient(tb, service, err)
	service, err = sdkgrpc.Service(nil, policy())
	generated := newClient(tb, service, err)
	overConns := callers(tb, generated, overGRPC, overConnect, false)
	return []door{
		{"operation over gRPC", operation, callers(tb, operation, overGRPC, overConnect, true)[2]},
		{"operation over connect", plain, callers(tb, plain, overGRPC, overConnect, true)[2]},
		{"generated by grpc-go", generated, overConns[0]},
		{"generated by connect-go", generated, overConns[1]},
	}
}

// callers are the ways to make a call with one client: generated by grpc-go and by connect-go, and an operation.
func callers(tb testing.TB, client *sdk.Client, overGRPC, overConnect string, operations bool) []callFunc {
	tb.Helper()
	unary, err := sdkgrpc.UnaryClientInterceptor(client, "stock")
	require.NoError(tb, err)
	stub := stockpb.NewStockClient(dial(tb, overGRPC, grpc.WithChainUnaryInterceptor(unary)))
	interceptor, err := sdkgrpc.ConnectInterceptor(client, "stock")
	require.NoError(tb, err)
	web := &http.Client{Transport: &http.Transport{}}
	tb.Cleanup(web.CloseIdleConnections)
	connected := stockpbconnect.NewStockClient(web, "http://"+overConnect, connect.WithInterceptors(interceptor))
	all := []callFunc{
		func(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
			return stub.Reserve(ctx, in)
		},
		func(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
			out, err := connected.Reserve(ctx, connect.NewRequest(in))
			if err != nil {
				return nil, err
			}
			return out.Msg, nil
		},
		func(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
			return sdk.Call(ctx, client, reserve, in)
		},
	}
	if !operations {
		return all[:2]
	}
	return all
}

// under returns ctx with a parent key.
func under(ctx context.Context, parent string) context.Context {
	return childkey.NewContext(ctx, childkey.MustParse(parent))
}

// A gateway stands before a server and loses answers: it passes requests on, and cuts the
// connection now and then when the server answers.
type gateway struct {
	addr string
	mu   sync.Mutex
	cuts int
	rate float64 // of the server's writes
}

func newGateway(tb testing.TB, target string, rate float64) *gateway {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = l.Close() })
	g := &gateway{addr: l.Addr().String(), rate: rate}
	go func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(down, target)
		}
	}()
	return g
}

func (g *gateway) pass(down net.Conn, target string) {
	defer down.Close() //nolint:errcheck // it is gone
	up, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer up.Close() //nolint:errcheck // it is gone
	go func() {
		defer up.Close()   //nolint:errcheck // it is gone
		defer down.Close() //nolint:errcheck // it is gone
		copyUntil(up, down, func() bool { return false })
	}()
	copyUntil(down, up, g.cut)
}

// cut reports whether the answer is lost.
func (g *gateway) cut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if rand.Float64() >= g.rate { //nolint:gosec // a test
		return false
	}
	g.cuts++
	return true
}

func (g *gateway) setRate(rate float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rate = rate
}

func (g *gateway) lost() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cuts
}

func copyUntil(to, from net.Conn, stop func() bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || stop() {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
