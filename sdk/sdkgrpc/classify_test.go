package sdkgrpc_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdkgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
)

// four makes four attempts at once.
func four() retry.Config {
	c := insistent()
	c.MaxAttempts = 4
	c.MaxPolls = 2
	return c
}

func ours(code wire.Code) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Domain: wire.ErrorDomain, Reason: code.Reason()}
}

// Each row is a call whose attempts all end with one status. It has the outcome of the call and the number of attempts.
func TestDoors_everyStatus(t *testing.T) {
	t.Parallel()
	soon := &errdetails.RetryInfo{RetryDelay: durationpb.New(20 * time.Millisecond)}
	replayed := []string{"idempotent-replayed", "true", "idempotency-should-retry", "false"}
	honoured := []string{"idempotent-replayed", "false", "idempotency-should-retry", "true"}
	for _, tt := range []struct {
		name    string
		code    codes.Code
		details []proto.Message
		md      []string
		want    retry.Outcome
		made    int
		final   bool // it wraps ErrNotRetryable
	}{
		{"cancelled", codes.Canceled, nil, nil, retry.Unknown, 1, false},
		{"unknown", codes.Unknown, nil, nil, retry.Unknown, 4, false},
		{"invalid argument", codes.InvalidArgument, nil, nil, retry.Rejected, 1, false},
		{"deadline exceeded", codes.DeadlineExceeded, nil, nil, retry.Unknown, 4, false},
		{"not found", codes.NotFound, nil, nil, retry.Rejected, 1, false},
		{"already exists", codes.AlreadyExists, nil, nil, retry.Rejected, 1, false},
		{"permission denied", codes.PermissionDenied, nil, nil, retry.Rejected, 1, false},
		{"exhausted", codes.ResourceExhausted, nil, nil, retry.Rejected, 1, false},
		{"exhausted for a while", codes.ResourceExhausted, []proto.Message{soon}, nil, retry.Rejected, 4, false},
		{"failed precondition", codes.FailedPrecondition, nil, nil, retry.Rejected, 1, false},
		{"aborted without a reason", codes.Aborted, nil, nil, retry.Unknown, 1, false},
		{"in progress", codes.Aborted, []proto.Message{ours(wire.InProgress), soon}, nil, retry.Unknown, 3, false},
		{"out of range", codes.OutOfRange, nil, nil, retry.Rejected, 1, false},
		{"unimplemented", codes.Unimplemented, nil, nil, retry.Rejected, 1, false},
		{"internal", codes.Internal, nil, nil, retry.Unknown, 4, false},
		{"unavailable", codes.Unavailable, nil, nil, retry.Unknown, 4, false},
		{"data loss", codes.DataLoss, nil, nil, retry.Unknown, 1, false},
		{"unauthenticated", codes.Unauthenticated, nil, nil, retry.Rejected, 1, false},
		{"unavailable, no retries", codes.Unavailable, nil, []string{"grpc-retry-pushback-ms", "-1"}, retry.Unknown, 1, true},
		{"unavailable, no number", codes.Unavailable, nil, []string{"grpc-retry-pushback-ms", "soon"}, retry.Unknown, 1, true},
		{"unavailable, pushed back", codes.Unavailable, nil, []string{"grpc-retry-pushback-ms", "5"}, retry.Unknown, 4, false},
		{"exhausted, pushed back", codes.ResourceExhausted, nil, []string{"grpc-retry-pushback-ms", "0"}, retry.Rejected, 4, false},
		{"gone", codes.FailedPrecondition, []proto.Message{ours(wire.ResponseGone)}, nil, retry.Completed, 1, false},
		{"unknown to the callee", codes.FailedPrecondition, []proto.Message{ours(wire.OutcomeUnknown)}, nil, retry.Unknown, 1, false},
		{"code in the metadata", codes.Internal, nil, []string{"idempotency-code", "response-gone"}, retry.Completed, 1, false},
		{"somebody else's reason", codes.FailedPrecondition, []proto.Message{&errdetails.ErrorInfo{Domain: "other", Reason: "RESPONSE_GONE"}}, nil, retry.Rejected, 1, false},
		{"stored failure", codes.Internal, nil, replayed, retry.Unknown, 1, true},
		{"honoured failure", codes.Internal, nil, honoured, retry.Unknown, 4, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var made atomic.Int64
			end := func() *status.Status {
				made.Add(1)
				s := status.New(tt.code, "as the table says")
				for _, d := range tt.details {
					s, _ = s.WithDetails(protoadapt.MessageV1Of(d))
				}
				return s
			}
			s := &stock{reserve: func(ctx context.Context, _ *stockpb.ReserveRequest) (error, bool) {
				_ = grpc.SetTrailer(ctx, metadata.Pairs(tt.md...)) // not in connect's
				return end().Err(), true
			}}
			overConnect := &stock{reserve: func(context.Context, *stockpb.ReserveRequest) (error, bool) {
				return connectError(end(), tt.md), true
			}}
			for i, d := range doors(t, listenGRPC(t, s), listenConnect(t, overConnect), four) {
				made.Store(0)
				_, err := d.call(under(t.Context(), "k"), line("tea"))
				var failed *retry.Error
				require.ErrorAs(t, err, &failed)
				require.Equal(t, tt.want, failed.Outcome, "%s: %v", d.name, err)
				require.EqualValues(t, tt.made, made.Load(), "%s: %v", d.name, err)
				require.Equal(t, tt.final, errors.Is(err, wire.ErrNotRetryable), d.name)
				require.Equal(t, tt.code, sdkgrpc.Status(err).Code(), d.name)
				require.Equal(t, "as the table says", sdkgrpc.Status(err).Message(), d.name)
				require.Len(t, sdkgrpc.Status(err).Details(), len(tt.details), d.name)
				switch i {
				case 2:
					require.Equal(t, tt.code, status.Code(err))
				case 3:
					require.Equal(t, connect.Code(tt.code), connect.CodeOf(err))
				}
			}
		})
	}
}

func connectError(s *status.Status, md []string) error {
	failed := connect.NewError(connect.Code(s.Code()), errors.New(s.Message()))
	for _, d := range s.Proto().GetDetails() {
		if detail, err := connect.NewErrorDetail(d); err == nil {
			failed.AddDetail(detail)
		}
	}
	for i := 0; i < len(md); i += 2 {
		failed.Meta().Set(md[i], md[i+1])
	}
	return failed
}

// A refusal that the callee stored speaks for an attempt whose answer was lost.
func TestDoors_storedRefusalIsProof(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		md   []string
		code codes.Code
		want retry.Outcome
		made int
	}{
		{"stored", []string{"idempotent-replayed", "false", "idempotency-should-retry", "false"}, codes.NotFound, retry.Rejected, 2},
		{"not the guard", nil, codes.NotFound, retry.Unknown, 4},
		{"released", []string{"idempotent-replayed", "false", "idempotency-should-retry", "true"}, codes.PermissionDenied, retry.Unknown, 2},
	} {
		var made atomic.Int64
		s := &stock{reserve: func(ctx context.Context, _ *stockpb.ReserveRequest) (error, bool) {
			if made.Add(1) == 1 {
				return status.Error(codes.Unavailable, "lost"), true
			}
			_ = grpc.SetHeader(ctx, metadata.Pairs(tt.md...))
			return status.Error(tt.code, "no"), true
		}}
		addr := listenGRPC(t, s)
		for _, i := range []int{0, 2} {
			made.Store(0)
			_, err := doors(t, addr, addr, four)[i].call(under(t.Context(), "k"), line("tea"))
			var failed *retry.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, tt.want, failed.Outcome, tt.name)
			require.EqualValues(t, tt.made, made.Load(), tt.name)
		}
	}
}

// A call that never left has had no effect.
func TestDoors_notSent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := l.Addr().String()
	require.NoError(t, l.Close())
	for _, d := range doors(t, nobody, nobody, four) {
		_, err := d.call(under(t.Context(), "k"), line("tea"))
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, retry.NotSent, failed.Outcome, "%s: %v", d.name, err)
		require.Equal(t, 4, failed.Attempts, d.name)
	}
}

// A server that accepts connections and says nothing gets no call: the handshake never ends.
func TestDoors_handshakeNeverEnds(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // a test
	impatient := func() retry.Config {
		c := four()
		c.AttemptTimeout = 100 * time.Millisecond
		return c
	}
	all := doors(t, l.Addr().String(), l.Addr().String(), impatient)
	for _, i := range []int{0, 2} {
		_, err := all[i].call(under(t.Context(), "k"), line("tea"))
		require.ErrorIs(t, err, retry.ErrNotSent, all[i].name)
		require.ErrorIs(t, err, retry.ErrAttemptTimeout, all[i].name)
	}
}

// Without DialOptions nobody sees whether the call left: then it counts as sent.
func TestService_withoutDialOptions(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // a test
	service, err := sdkgrpc.Service(conn, four())
	client := newClient(t, service, err)
	_, err = sdk.Call(under(t.Context(), "k"), client, reserve, line("tea"))
	require.ErrorIs(t, err, retry.ErrUnknown)
}

// A server that dies with the request may have done it. It dies when the request is there: before, an acknowledgement of
// HTTP/2 could end the connection, and nothing would have been sent.
func TestDoors_connectionBreaks(t *testing.T) {
	t.Parallel()
	var cut atomic.Pointer[gateway]
	shop := &stock{reserve: func(_ context.Context, in *stockpb.ReserveRequest) (error, bool) {
		if in.GetSku() == "salt" {
			cut.Load().setRate(1)
		}
		return nil, false
	}}
	g := newGateway(t, listenGRPC(t, shop), 0)
	cut.Store(g)
	for _, i := range []int{0, 2} {
		d := doors(t, g.addr, g.addr, unguarded(four))[i]
		_, err := d.call(under(t.Context(), "warm"), line("tea"))
		require.NoError(t, err)
		_, err = d.call(under(t.Context(), "k"), line("salt"))
		require.ErrorIs(t, err, retry.ErrUnknown, d.name)
		g.setRate(0)
	}
}

// The caller's own end of time, and that of one attempt.
func TestDoors_time(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	arrived := make(chan struct{}, 100)
	s := &stock{reserve: func(ctx context.Context, _ *stockpb.ReserveRequest) (error, bool) {
		made.Add(1)
		arrived <- struct{}{}
		<-ctx.Done()
		return ctx.Err(), true
	}}
	short := func() retry.Config {
		c := four()
		c.AttemptTimeout = 400 * time.Millisecond // on a busy machine a request may be long on its way
		return c
	}
	for i, d := range doors(t, listenGRPC(t, s), listenConnect(t, s), short) {
		made.Store(0)
		_, err := d.call(under(t.Context(), "k"), line("tea"))
		require.ErrorIs(t, err, retry.ErrUnknown, d.name)
		require.EqualValues(t, 4, made.Load(), "%s: an attempt's timeout is retried", d.name)
		ctx, cancel := context.WithCancel(under(t.Context(), "k2"))
		for len(arrived) > 0 {
			<-arrived
		}
		go func() { <-arrived; cancel() }()
		_, err = d.call(ctx, line("tea"))
		require.ErrorIs(t, err, retry.ErrUnknown, d.name)
		require.ErrorIs(t, err, context.Canceled, d.name)
		require.EqualValues(t, 5, made.Load(), "%s: the caller's end is not", d.name)
		if i == 2 {
			require.Equal(t, codes.Canceled, status.Code(err))
		}
	}
}

// gRPC's own retries are off below ours, whatever the service config asks for.
func TestDialOptions_disableRetries(t *testing.T) {
	t.Parallel()
	const policy = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":5,"initialBackoff":"0.001s","maxBackoff":"0.001s",
		"backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`
	var made atomic.Int64
	s := &stock{reserve: func(context.Context, *stockpb.ReserveRequest) (error, bool) {
		made.Add(1)
		return status.Error(codes.Unavailable, "not now"), true
	}}
	addr := listenGRPC(t, s)
	service, err := sdkgrpc.Service(dial(t, addr, grpc.WithDefaultServiceConfig(policy)), four())
	client := newClient(t, service, err)
	_, err = sdk.Call(under(t.Context(), "k"), client, reserve, line("tea"))
	require.Error(t, err)
	require.EqualValues(t, 4, made.Load())

	made.Store(0) // proof that the policy would have worked
	plain, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(policy))
	require.NoError(t, err)
	defer plain.Close() //nolint:errcheck // a test
	_, err = stockpb.NewStockClient(plain).Reserve(t.Context(), line("tea"))
	require.Error(t, err)
	require.EqualValues(t, 5, made.Load())
}

// A connection that has the options twice gets as many attempts as any other.
func TestDialOptions_twice(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	s := &stock{reserve: func(context.Context, *stockpb.ReserveRequest) (error, bool) {
		made.Add(1)
		return status.Error(codes.Unavailable, "not now"), true
	}}
	service, err := sdkgrpc.Service(dial(t, listenGRPC(t, s), sdkgrpc.DialOptions()...), four())
	client := newClient(t, service, err)
	_, err = sdk.Call(under(t.Context(), "k"), client, reserve, line("tea"))
	require.Error(t, err)
	require.EqualValues(t, 4, made.Load())
}

// A proxy answers connect's callers in its own way.
func TestConnectService_proxy(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var made atomic.Int64
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // a test
		made.Add(1)
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html>"))
	})}
	go srv.Serve(l) //nolint:errcheck // Close ends it
	defer srv.Close()
	service, err := sdkgrpc.ConnectService("http://"+l.Addr().String(), four())
	client := newClient(t, service, err)
	_, err = sdk.Call(under(t.Context(), "k"), client, reserve, line("tea"))
	require.ErrorIs(t, err, retry.ErrUnknown)
	require.EqualValues(t, 4, made.Load())
	require.Equal(t, codes.Unavailable, sdkgrpc.Status(err).Code(), "an error is never OK")
	require.Nil(t, sdkgrpc.Status(nil))
	require.Equal(t, codes.Unknown, sdkgrpc.Status(errors.New("other")).Code())

	_, err = sdk.Call(t.Context(), client, reserve, line("tea")) // without a parent key
	require.Error(t, err)
	require.NotEqual(t, codes.OK, sdkgrpc.Status(err).Code(), "not sent")
}
