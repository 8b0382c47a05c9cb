package sdkgrpc_test

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdkgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
)

// An observer remembers where attempts went, and the statuses that they ended with.
type observer struct {
	mu       sync.Mutex
	began    []retry.Target
	statuses []string
}

func (*observer) CallStarted(ctx context.Context, _ retry.Event) context.Context { return ctx }

func (o *observer) AttemptStarted(ctx context.Context, e retry.Event) context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began = append(o.began, e.Target)
	return ctx
}

func (o *observer) AttemptEnded(_ context.Context, e retry.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.statuses = append(o.statuses, e.RPCStatus)
}

func (*observer) CallEnded(context.Context, retry.Event) {}

// An observer hears which RPC an attempt is, where it goes, and which status it ends with, in all four ways to call.
func TestTarget(t *testing.T) {
	t.Parallel()
	s := new(stock)
	s.reserve = func(_ context.Context, in *stockpb.ReserveRequest) (error, bool) {
		return status.Error(codes.FailedPrecondition, "sold out"), in.GetSku() == "cup"
	}
	overGRPC, overConnect := listen(t, s)
	seen := new(observer)
	policy := func() retry.Config {
		cfg := insistent()
		cfg.Observer = seen
		return cfg
	}
	for i, d := range doors(t, overGRPC, overConnect, policy) {
		to := retry.Target{System: "grpc", Method: stockpb.Stock_Reserve_FullMethodName[1:]}
		to.Address, to.Port = split(t, overGRPC)
		want := []string{"OK", "FAILED_PRECONDITION"}
		if i%2 == 1 {
			to.System = "connectrpc"
			to.Address, to.Port = split(t, overConnect)
			want = []string{"", "failed_precondition"}
		}
		seen.began, seen.statuses = nil, nil
		_, err := d.call(under(t.Context(), "tea-"+d.name[len(d.name)-4:]), line(d.name+" tea"))
		require.NoError(t, err)
		_, err = d.call(under(t.Context(), "cup-"+d.name[len(d.name)-4:]), line("cup"))
		require.Error(t, err)
		require.Equal(t, want, seen.statuses, d.name)
		require.Equal(t, []retry.Target{to, to}, seen.began, d.name)
	}
}

func split(t *testing.T, addr string) (address string, port int) {
	t.Helper()
	address, text, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	port, err = strconv.Atoi(text)
	require.NoError(t, err)
	return address, port
}

// A dialed is a connection that was dialed with a target, and fails.
type dialed string

func (d dialed) Target() string { return string(d) }

func (dialed) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return status.Error(codes.Unavailable, "no server")
}

func (dialed) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unavailable, "no server")
}

// The address is the one that the connection was dialed with, as gRPC's names have it.
func TestTarget_address(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		target, address string
		port            int
	}{
		{"payments:443", "payments", 443},
		{"dns:443", "dns", 443}, // a host with that name
		{"dns:payments:443", "payments", 443},
		{"dns:///payments:443", "payments", 443},
		{"dns://1.2.3.4/payments:443", "payments", 443},
		{"dns:///payments", "payments", 0},
		{"passthrough:///bufnet", "bufnet", 0},
		{"[::1]:443", "::1", 443},
		{"payments", "payments", 0},
		{"unix:///run/payments.sock", "/run/payments.sock", 0},
		{"unix:payments.sock", "payments.sock", 0},
		{"zk://zookeeper:2181/payments", "zk://zookeeper:2181/payments", 0},
		{"xds:///payments", "xds:///payments", 0},
		{"ipv4:1.2.3.4:50051,1.2.3.5:50051", "ipv4:1.2.3.4:50051,1.2.3.5:50051", 0},
		{"", "", 0},
	} {
		seen := new(observer)
		service, err := sdkgrpc.Service(dialed(tt.target), retry.Config{Observer: seen, MaxAttempts: 1})
		client := newClient(t, service, err)
		_, err = sdk.Call(under(t.Context(), "order"), client, reserve, line("tea"))
		require.Error(t, err)
		require.Equal(t, []string{"UNAVAILABLE"}, seen.statuses)
		require.Equal(t, tt.address, seen.began[0].Address, tt.target)
		require.Equal(t, tt.port, seen.began[0].Port, tt.target)
	}
}
