package sdkgrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdkgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb/stockpbconnect"
)

// A fan-out calls gRPC as it calls HTTP, and undoes what it did.
func TestFanout(t *testing.T) {
	t.Parallel()
	s := new(stock)
	overGRPC, overConnect := listen(t, s)
	for i, d := range doors(t, overGRPC, overConnect, insistent)[:2] {
		ctx := under(t.Context(), "order-"+d.name[len(d.name)-4:])
		for range 2 { // the second run resumes
			fan := d.client.Fanout(ctx)
			tea := sdk.Add(fan, reserve.For("line-1"), line(d.name+" tea"))
			sdk.Add(fan, reserve.For("line-2"), line(d.name+" cup"))
			require.NoError(t, fan.Wait())
			hold, err := tea.Get(ctx)
			require.NoError(t, err)
			require.Equal(t, d.name+" tea", hold.GetSku())
		}
		for range 2 {
			in := contract.Undo[*stockpb.ReserveRequest, *stockpb.Hold]{Input: line(d.name + " tea")}
			require.NoError(t, sdk.CallUndo(ctx, d.client, reserve.UndoneBy(release).For("line-1"), in))
		}
		s.requireOnce(t, 2*(i+1))
		require.Equal(t, 1, s.released[d.name+" tea"])
	}
}

type (
	sagaLine = sdkgrpc.JSON[*stockpb.ReserveRequest]
	sagaHold = sdkgrpc.JSON[*stockpb.Hold]
)

var (
	sagaReserve = sdkgrpc.Method[sagaLine, sagaHold]("stock", stockpb.Stock_Reserve_FullMethodName)
	sagaRelease = sdkgrpc.UndoMethod("stock", stockpb.Stock_Release_FullMethodName, func(u contract.Undo[sagaLine, sagaHold]) *stockpb.ReleaseRequest {
		r := &stockpb.ReleaseRequest{Reserve: u.Input.Message}
		if u.Output != nil {
			r.Hold = u.Output.Message
		}
		return r
	})
	order = saga.MustDefine("order", 1, func(b *saga.Builder[sagaLine, sagaHold]) {
		first := saga.Step(b, sagaReserve.For("1"), b.Input()).Undo(sagaRelease)
		second := saga.Step(b, sagaReserve.For("2"), saga.Map2(b.Input(), first.Output(), func(in sagaLine, h sagaHold) sagaLine {
			next := proto.CloneOf(in.Message)
			next.Sku += " and " + h.Message.GetSku()
			return sagaLine{Message: next}
		})).Undo(sagaRelease)
		saga.Return(b, second.Output())
	})
)

// A saga does too: it finishes, or undoes what it did.
func TestSaga(t *testing.T) {
	t.Parallel()
	s := new(stock)
	s.reserve = func(_ context.Context, in *stockpb.ReserveRequest) (error, bool) {
		return status.Error(codes.FailedPrecondition, "sold out"), in.GetSku() == "cup and cup"
	}
	overGRPC, _ := listen(t, s)
	service, err := sdkgrpc.Service(dial(t, overGRPC), insistent())
	client := newClient(t, service, err)
	engine, err := saga.Open(t.Context(), memjournal.New(), saga.Config{Client: client, Definitions: []saga.AnyDefinition{order}})
	require.NoError(t, err)
	defer engine.Close(context.Background()) //nolint:errcheck // a test
	hold, err := order.Run(t.Context(), engine, childkey.MustParse("order-1"), sagaLine{Message: line("tea")})
	require.NoError(t, err)
	require.Equal(t, "tea and tea", hold.Message.GetSku())
	s.requireOnce(t, 2)

	_, err = order.Run(t.Context(), engine, childkey.MustParse("order-2"), sagaLine{Message: line("cup")})
	require.ErrorIs(t, err, saga.ErrCompensated)
	require.Equal(t, map[string]int{"cup": 1}, s.released, "what was refused had no effect to undo")
}

func TestJSON(t *testing.T) {
	t.Parallel()
	in := line("tea")
	first, err := json.Marshal(sagaLine{Message: in})
	require.NoError(t, err)
	for range 20 {
		again, err := json.Marshal(sagaLine{Message: proto.CloneOf(in)})
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	}
	var back sagaLine
	require.NoError(t, json.Unmarshal([]byte(`{"later":1,`+string(first[1:])), &back))
	require.True(t, proto.Equal(in, back.Message))
	none, err := json.Marshal(sagaLine{})
	require.NoError(t, err)
	require.Equal(t, "null", string(none))
	require.NoError(t, json.Unmarshal(none, &back))
	require.Nil(t, back.Message)
	require.Error(t, json.Unmarshal([]byte(`{"quantity":"x"}`), &back))
}

func TestMethod_rejects(t *testing.T) {
	t.Parallel()
	type op interface{ Err() error }
	undo := func(contract.Undo[*stockpb.ReserveRequest, *stockpb.Hold]) *stockpb.ReleaseRequest { return nil }
	var noRequest func(contract.Undo[*stockpb.ReserveRequest, *stockpb.Hold]) *stockpb.ReleaseRequest
	for name, tt := range map[string]struct {
		op   op
		want string // in the error; "" for none
	}{
		"good":           {reserve, ""},
		"good undo":      {release, ""},
		"good JSON":      {sagaReserve, ""},
		"not linked":     {sdkgrpc.Method[*emptypb.Empty, *emptypb.Empty]("stock", "/other.v1.Other/Do"), ""},
		"streaming":      {sdkgrpc.Method[*stockpb.ShowRequest, *stockpb.Hold]("stock", stockpb.Stock_Watch_FullMethodName), "streams"},
		"another input":  {sdkgrpc.Method[*stockpb.ShowRequest, *stockpb.Hold]("stock", stockpb.Stock_Reserve_FullMethodName), "takes a"},
		"another output": {sdkgrpc.Method[*stockpb.ReserveRequest, *emptypb.Empty]("stock", stockpb.Stock_Reserve_FullMethodName), "returns a"},
		"no full name":   {sdkgrpc.Method[*emptypb.Empty, *emptypb.Empty]("stock", "/Reserve"), "no full name"},
		"no slash":       {sdkgrpc.Method[*emptypb.Empty, *emptypb.Empty]("stock", "a.B/C"), "does not start with /"},
		"bad service":    {sdkgrpc.Method[*emptypb.Empty, *emptypb.Empty]("a:b", "/a.B/C"), "service"},
		"no request":     {sdkgrpc.UndoMethod("stock", stockpb.Stock_Release_FullMethodName, noRequest), "request: nil"},
		"another undo":   {sdkgrpc.UndoMethod("stock", stockpb.Stock_Reserve_FullMethodName, undo), "takes a"},
	} {
		if tt.want == "" {
			require.NoError(t, tt.op.Err(), name)
			continue
		}
		require.ErrorIs(t, tt.op.Err(), contract.ErrInvalid, name)
		require.ErrorContains(t, tt.op.Err(), tt.want, name)
	}
	_, err := reserve.Encode(nil)
	require.ErrorIs(t, err, contract.ErrBody, "a nil message")
	var hold *stockpb.Hold
	require.ErrorIs(t, reserve.Codec().Decode([]byte{0xff}, &hold), contract.ErrBody)
	require.Nil(t, hold)
	require.Error(t, reserve.Codec().Decode(nil, hold))
	require.Error(t, reserve.Codec().Decode(nil, new(int)))
}

func TestConstructors_reject(t *testing.T) {
	t.Parallel()
	_, err := sdkgrpc.Service(nil, retry.Config{Transport: http.DefaultTransport})
	require.ErrorIs(t, err, sdkgrpc.ErrConfig)
	_, err = sdkgrpc.ConnectService("", retry.Config{})
	require.ErrorIs(t, err, sdkgrpc.ErrConfig)
	inBody := retry.Config{Profile: &retry.Profile{BodyField: "request_id"}}
	_, err = sdkgrpc.Service(nil, inBody)
	require.ErrorIs(t, err, sdkgrpc.ErrConfig)
	_, err = sdkgrpc.ConnectService("http://stock.test", inBody)
	require.ErrorIs(t, err, sdkgrpc.ErrConfig)
	service, err := sdkgrpc.Service(nil, retry.Config{})
	client := newClient(t, service, err)
	for _, tt := range []struct {
		client  *sdk.Client
		service string
	}{{nil, "stock"}, {client, "shop"}, {client, ""}} {
		_, err := sdkgrpc.UnaryClientInterceptor(tt.client, tt.service)
		require.ErrorIs(t, err, sdkgrpc.ErrConfig)
		_, err = sdkgrpc.ConnectInterceptor(tt.client, tt.service)
		require.ErrorIs(t, err, sdkgrpc.ErrConfig)
	}
	_, err = sdk.Call(under(t.Context(), "k"), client, reserve, line("tea"))
	require.ErrorIs(t, err, sdkgrpc.ErrConfig, "an operation without a conn")
}

// A reader counts Shows, and fails the first of them.
type reader struct {
	stockpb.UnimplementedStockServer
	shown atomic.Int64
	keys  atomic.Int64
}

func (r *reader) Show(ctx context.Context, _ *stockpb.ShowRequest) (*stockpb.Hold, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	r.keys.Add(int64(len(md.Get("idempotency-key"))))
	if n := r.shown.Add(1); n > 1 {
		return &stockpb.Hold{Id: n}, nil
	}
	return nil, status.Error(codes.Unavailable, "not now")
}

// A method without side effects needs no key and no parent key, and is repeated.
func TestReads(t *testing.T) {
	t.Parallel()
	service, err := sdkgrpc.Service(nil, four())
	client := newClient(t, service, err)
	unary, err := sdkgrpc.UnaryClientInterceptor(client, "stock")
	require.NoError(t, err)
	r := new(reader)
	conn := dial(t, listenGRPC(t, r), grpc.WithChainUnaryInterceptor(unary))
	got, err := stockpb.NewStockClient(conn).Show(t.Context(), &stockpb.ShowRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 2, got.GetId())
	require.Zero(t, r.keys.Load())

	interceptor, err := sdkgrpc.ConnectInterceptor(client, "stock")
	require.NoError(t, err)
	r.shown.Store(0)
	web := &http.Client{Transport: &http.Transport{Protocols: unencrypted()}}
	defer web.CloseIdleConnections()
	over := stockpbconnect.NewStockClient(web, "http://"+listenGRPC(t, r), connect.WithGRPC(), connect.WithInterceptors(interceptor))
	out, err := over.Show(t.Context(), connect.NewRequest(&stockpb.ShowRequest{}))
	require.NoError(t, err)
	require.EqualValues(t, 2, out.Msg.GetId())
	require.Zero(t, r.keys.Load())
	_, err = over.Count(under(t.Context(), "k"), connect.NewRequest(&stockpb.CountRequest{}))
	require.Equal(t, connect.CodeUnimplemented, connect.CodeOf(err))
}

func unencrypted() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// Code that runs for one call may make others under its ctx: they are calls of their own.
func TestInterceptor_callsWithin(t *testing.T) {
	t.Parallel()
	s := new(stock)
	overGRPC, _ := listen(t, s)
	inner, err := sdkgrpc.Service(dial(t, overGRPC), insistent())
	tokens := newClient(t, inner, err)
	service, err := sdkgrpc.Service(nil, insistent())
	require.NoError(t, err)
	service.HeaderFunc = func(ctx context.Context, header http.Header) error {
		_, err := sdk.Call(under(ctx, "token"), tokens, reserve, line("token"))
		header.Set("Authorization", "Bearer x")
		return err
	}
	client := newClient(t, service, nil)
	unary, err := sdkgrpc.UnaryClientInterceptor(client, "stock")
	require.NoError(t, err)
	stub := stockpb.NewStockClient(dial(t, overGRPC, grpc.WithChainUnaryInterceptor(unary)))
	ctx := metadata.AppendToOutgoingContext(under(t.Context(), "order-1"), "tenant", "t")
	got, err := stub.Reserve(ctx, line("tea"))
	require.NoError(t, err)
	require.Equal(t, "tea", got.GetSku())
	s.requireOnce(t, 2)
}

// The conn of a Service may have the interceptor too: an operation's call has one key.
func TestService_connWithInterceptor(t *testing.T) {
	t.Parallel()
	s := new(stock)
	overGRPC, _ := listen(t, s)
	service, err := sdkgrpc.Service(nil, insistent())
	generated := newClient(t, service, err)
	unary, err := sdkgrpc.UnaryClientInterceptor(generated, "stock")
	require.NoError(t, err)
	conn := dial(t, overGRPC, grpc.WithChainUnaryInterceptor(unary))
	service, err = sdkgrpc.Service(conn, insistent())
	client := newClient(t, service, err)
	ctx := under(t.Context(), "order-1")
	_, err = sdk.Call(ctx, client, reserve, line("tea"))
	require.NoError(t, err)
	_, err = stockpb.NewStockClient(conn).Reserve(ctx, line("tea"))
	require.NoError(t, err, "it is the same call")
	s.requireOnce(t, 1)
	var e *sdkgrpc.Error
	_, err = stockpb.NewStockClient(conn).Reserve(t.Context(), line("tea"))
	require.True(t, errors.As(err, &e))
	require.ErrorIs(t, err, sdk.ErrNoParent)
}

// One service serves operations and generated clients of both libraries, whichever constructor made it: one method has one
// key.
func TestServices_everyCaller(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		operations bool
		service    func(overGRPC, overConnect string) (sdk.Service, error)
	}{
		{"over gRPC", true, func(a, _ string) (sdk.Service, error) { return sdkgrpc.Service(dial(t, a), four()) }},
		{"over connect", true, func(_, a string) (sdk.Service, error) { return sdkgrpc.ConnectService("http://"+a, four()) }},
		{"without a conn", false, func(string, string) (sdk.Service, error) { return sdkgrpc.Service(nil, four()) }},
	} {
		s := &stock{reserve: func(_ context.Context, in *stockpb.ReserveRequest) (error, bool) {
			return status.Error(codes.NotFound, "never heard of it"), in.GetSku() == "moon"
		}}
		overGRPC, overConnect := listen(t, s)
		service, err := tt.service(overGRPC, overConnect)
		client := newClient(t, service, err)
		for _, call := range callers(t, client, overGRPC, overConnect, tt.operations) {
			got, err := call(under(t.Context(), "order-1"), line("tea"))
			require.NoError(t, err, tt.name)
			require.Equal(t, "tea", got.GetSku())
			_, err = call(under(t.Context(), "order-2"), line("moon"))
			require.ErrorIs(t, err, retry.ErrRejected, tt.name)
			require.Equal(t, codes.NotFound, sdkgrpc.Status(err).Code())
		}
		s.requireOnce(t, 1)
	}
}

// A service that another package made goes over HTTP, and its answer is no message: the error says so, and what happened.
func TestInterceptor_anotherService(t *testing.T) {
	t.Parallel()
	s := new(stock)
	overGRPC, overConnect := listen(t, s)
	client := newClient(t, sdk.Service{URL: "http://" + overConnect}, nil)
	for i, call := range callers(t, client, overGRPC, overConnect, false) {
		_, err := call(under(t.Context(), "order-1"), line("tea"))
		require.ErrorIs(t, err, sdkgrpc.ErrConfig, "%d", i)
		require.ErrorIs(t, err, retry.ErrCompleted, "%d", i)
	}
}
