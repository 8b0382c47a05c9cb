package sdkgrpc

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// ConnectInterceptor is [UnaryClientInterceptor] for the clients that connect-go generates, in any
// of its protocols. Calls of handlers pass.
//
// An error is the last [*connect.Error] as well as an [*Error]: errors.As finds both.
func ConnectInterceptor(client *sdk.Client, service string) (connect.Interceptor, error) {
	c, err := newCaller(client, service)
	if err != nil {
		return nil, err
	}
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if !req.Spec().IsClient {
				return next(ctx, req)
			}
			return c.callConnect(ctx, &connectStub{next: next, req: req})
		}
	}), nil
}

// callConnect makes the call of v.
func (c *caller) callConnect(ctx context.Context, v *connectStub) (connect.AnyResponse, error) {
	spec := v.req.Spec()
	err := c.call(ctx, spec.Procedure, v.req.Any(), spec.IdempotencyLevel != connect.IdempotencyNoSideEffects, v)
	var own *Error
	switch {
	case err == nil:
		return v.resp, nil
	case v.failed != nil && errors.As(err, &own):
		return nil, &connectFailure{own: own, failed: v.failed}
	}
	return nil, err
}

// A connectFailure is an Error, with the last error of connect.
type connectFailure struct {
	own    *Error
	failed *connect.Error
}

func (e *connectFailure) Error() string { return e.own.Error() }

// Unwrap returns both.
func (e *connectFailure) Unwrap() []error { return []error{e.failed, e.own} }

// A connectStub is the invocation of a client of connect.
type connectStub struct {
	last
	next   connect.UnaryFunc
	req    connect.AnyRequest
	resp   connect.AnyResponse
	failed *connect.Error // of the last attempt
}

// invoke makes one attempt. ctx carries hooks, by which net/http tells package retry whether it was sent.
func (c *connectStub) invoke(ctx context.Context, header http.Header) (answer, error) {
	for _, name := range ours {
		c.req.Header().Del(name)
	}
	for name, values := range header {
		if !framing[name] {
			c.req.Header()[name] = values
		}
	}
	var err error
	c.resp, err = c.next(ctx, c.req)
	c.failed = nil
	if err == nil {
		a := answer{header: incoming(c.resp.Header(), c.resp.Trailer())}
		c.note(&a, nil)
		return a, nil
	}
	a, err := c.end(ctx, err)
	c.note(&a, err)
	return a, err
}

func (c *connectStub) target() retry.Target {
	peer := c.req.Peer()
	to := retry.Target{System: systemConnect}
	if peer.Protocol != connect.ProtocolConnect {
		to.System = systemGRPC
	}
	to.Address, to.Port = splitTarget(peer.Addr)
	return to
}

// end returns how an attempt ended that failed with err. Only an error of the callee's is an answer.
func (c *connectStub) end(ctx context.Context, err error) (answer, error) {
	if ctx.Err() != nil {
		return answer{}, context.Cause(ctx)
	}
	failed := new(connect.Error)
	if !errors.As(err, &failed) {
		return answer{}, err
	}
	c.failed = failed
	if !connect.IsWireError(failed) {
		if cause := failed.Unwrap(); cause != nil {
			return answer{}, cause // of the network, as package retry knows it
		}
		return answer{}, err
	}
	return answer{status: toStatus(failed), header: incoming(failed.Meta())}, nil
}

// toStatus returns the status that connect made of an attempt. The codes of connect have the numbers of gRPC's.
func toStatus(failed *connect.Error) *spb.Status {
	p := &spb.Status{Code: int32(failed.Code()), Message: failed.Message()} //nolint:gosec // codes are small
	for _, d := range failed.Details() {
		p.Details = append(p.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	return p
}

// status returns that of the last attempt, also if connect made it here.
func (c *connectStub) status() *status.Status {
	if s := c.last.status(); s != nil || c.failed == nil {
		return s
	}
	return status.FromProto(toStatus(c.failed))
}
