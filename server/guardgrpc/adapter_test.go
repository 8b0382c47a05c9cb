package guardgrpc_test

import (
	"context"
	"errors"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/adaptertest"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb/stockpbconnect"
)

const note = "x-note" // adaptertest.NoteHeader in lower case

// reservation is the operation as a handler. It changes its request in place, as one that normalizes it.
func reservation(op adaptertest.Operation, addNote func(ctx context.Context, text string)) func(context.Context, *stockpb.ReserveRequest) (*stockpb.Hold, error) {
	return func(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
		input := in.GetSku()
		in.Sku = "changed in place"
		reply, err := op.Handle(ctx, input)
		addNote(ctx, reply.Note)
		switch {
		case errors.Is(err, adaptertest.ErrRefused):
			return nil, status.Error(codes.InvalidArgument, "refused")
		case err != nil:
			return nil, status.Error(codes.Internal, "failed")
		}
		return &stockpb.Hold{Sku: reply.Text}, nil
	}
}

// answerOf is a reply as the suite has it.
func answerOf(r reply) (adaptertest.Answer, error) {
	a := adaptertest.Answer{Notes: r.md[note], Replayed: r.get("idempotent-replayed") == "true", Retry: r.get("idempotency-should-retry") == "true"}
	switch code := r.get("idempotency-code"); {
	case code != "":
		a.Outcome = code
	case r.status == nil:
		a.Outcome, a.Text = adaptertest.OK, r.hold.GetSku()
	case codes.Code(r.status.GetCode()) == codes.InvalidArgument:
		a.Outcome = adaptertest.Refused
	case codes.Code(r.status.GetCode()) == codes.Internal && r.get("idempotent-replayed") != "":
		a.Outcome = adaptertest.Failed
	default:
		return a, status.ErrorProto(r.status)
	}
	return a, nil
}

// interceptorFor guards the operation, and replays its note.
func interceptorFor(tb testing.TB, op adaptertest.Operation) *guardgrpc.Interceptor {
	tb.Helper()
	cfg := config(server.Transactional)
	cfg.ReplayMetadata = []string{note}
	i, err := guardgrpc.New(op.Guard, cfg)
	require.NoError(tb, err)
	return i
}

func callerOf(c caller) adaptertest.Caller {
	return func(ctx context.Context, key, input string) (adaptertest.Answer, error) {
		return answerOf(c.reserve(ctx, &stockpb.ReserveRequest{Sku: input}, wire.HeaderKey, key))
	}
}

// recoverPanic answers a panic, which would end the process.
func recoverPanic(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "a panic")
		}
	}()
	return next(ctx, in)
}

// refuseSecondSight refuses a request that an earlier run changed.
func refuseSecondSight(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if r, ok := in.(*stockpb.ReserveRequest); ok && r.GetSku() == "changed in place" {
		return nil, status.Error(codes.DataLoss, "the request of an earlier run")
	}
	return next(ctx, in)
}

// The interceptors behind the guard and the handler run again after a conflict, with the request as it came, and metadata
// of the run before is neither sent nor stored, whichever function set it.
func TestAdapter_grpc(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(context.Context, metadata.MD) error{
		"SetHeader": grpc.SetHeader, "SendHeader": grpc.SendHeader, "SetTrailer": grpc.SetTrailer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
				s := &stock{reserve: reservation(op, func(ctx context.Context, text string) { _ = set(ctx, metadata.Pairs(note, text)) })}
				i := interceptorFor(tb, op)
				return callerOf(serveGRPCWith(tb, s, []grpc.ServerOption{
					grpc.ChainUnaryInterceptor(recoverPanic, i.Unary, refuseSecondSight), grpc.ChainStreamInterceptor(i.Stream),
				}))
			})
		})
	}
}

// Connect keeps the headers that a handler sets by its ctx, and those of the request, for the whole call.
func TestAdapter_connect(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]connect.ClientOption{
		"connect": nil, "JSON": {connect.WithProtoJSON()}, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
				reserve := reservation(op, func(ctx context.Context, text string) {
					info, _ := connect.CallInfoForHandlerContext(ctx)
					info.ResponseHeader().Add(note, text)
				})
				once := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
					return func(ctx context.Context, in connect.AnyRequest) (connect.AnyResponse, error) {
						if in.Header().Get("X-Seen") != "" {
							return nil, connect.NewError(connect.CodeDataLoss, errors.New("the headers of an earlier run"))
						}
						in.Header().Set("X-Seen", "once")
						return next(ctx, in)
					}
				})
				return callerOf(serveConnectWith(tb, connectStock{&stock{reserve: reserve}}, []connect.Interceptor{interceptorFor(tb, op), once}, options...))
			})
		})
	}
}

// headerStock sets its note in the response, as connect's older style has it.
type headerStock struct {
	stockpbconnect.UnimplementedStockHandler
	op adaptertest.Operation
}

func (s *headerStock) Reserve(ctx context.Context, in *connect.Request[stockpb.ReserveRequest]) (*connect.Response[stockpb.Hold], error) {
	var text string
	out, err := respond(reservation(s.op, func(_ context.Context, t string) { text = t })(ctx, in.Msg))
	if err == nil {
		out.Header().Add(note, text)
	}
	return out, err
}

func TestAdapter_connectResponse(t *testing.T) {
	t.Parallel()
	adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
		return callerOf(serveConnectWith(tb, &headerStock{op: op}, []connect.Interceptor{interceptorFor(tb, op)}))
	})
}
