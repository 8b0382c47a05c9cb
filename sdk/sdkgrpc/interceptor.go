package sdkgrpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// UnaryClientInterceptor returns an interceptor for the connection of a generated client. Its unary
// calls then go to the service as those of [sdk.Client.Send] do: under a child key of the parent key
// that ctx carries, with repetitions. The operation is the method's name, "stock.v1.Stock/Reserve": a call of
// the operation that [Method] declares has the same key.
//
// A method whose proto has the idempotency_level NO_SIDE_EFFECTS gets no key and needs no parent
// key. It is repeated too. Streams pass. Two calls of one method under one parent key need [WithCall].
//
// service is the name of a callee in client that [Service] returned, with a nil conn or any other, or [ConnectService].
// Dial with [DialOptions] as well. The error wraps [ErrConfig]. Each call's error is an [*Error].
func UnaryClientInterceptor(client *sdk.Client, service string) (grpc.UnaryClientInterceptor, error) {
	c, err := newCaller(client, service)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if e := evidenceFrom(ctx); e != nil && e.method == method {
			return invoker(ctx, method, req, reply, cc, opts...) // an attempt of an operation, which has its key
		}
		return c.call(ctx, method, req, hasSideEffects(method), &stub{conn: cc, once: func(ctx context.Context, more ...grpc.CallOption) error {
			return invoker(ctx, method, req, reply, cc, append(opts[:len(opts):len(opts)], more...)...)
		}})
	}, nil
}

// A stub is the invocation of a generated client.
type stub struct {
	last
	conn *grpc.ClientConn
	once func(ctx context.Context, more ...grpc.CallOption) error
}

func (s *stub) invoke(ctx context.Context, header http.Header) (answer, error) {
	a, err := overGRPC(ctx, "", header, s.once)
	s.note(&a, err)
	return a, err
}

func (s *stub) target() retry.Target { return targetOf(s.conn) }

// A CallInfo says more about one call of a generated client.
type CallInfo struct {
	// Discriminators tell several calls of one method under one parent key apart, as
	// [contract.Operation.For] does. Nil means none.
	Discriminators []string
	// Cancels is the key of the forward call that this one undoes, which [sdk.KeyOf] returns. The zero
	// Key means that it undoes none.
	Cancels childkey.Key
}

type callInfoKey struct{}

// WithCall returns ctx, in which a call of a generated client has info.
func WithCall(ctx context.Context, info CallInfo) context.Context {
	return context.WithValue(ctx, callInfoKey{}, info)
}

// A caller makes the calls of generated clients.
type caller struct {
	client  *sdk.Client
	service string
}

func newCaller(client *sdk.Client, service string) (*caller, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: client: nil", ErrConfig)
	}
	parent := childkey.MustParse("probe") // only to ask whether there is such a service
	if _, err := client.ChildKey(parent, service, "probe"); err != nil {
		return nil, fmt.Errorf("%w: service: %w", ErrConfig, err)
	}
	return &caller{client: client, service: service}, nil
}

// An attempter is an invocation that remembers how its last attempt ended.
type attempter interface {
	invocation
	status() *status.Status
	wasInvoked() bool
}

// call makes the call of a method by v.
func (c *caller) call(ctx context.Context, method string, req any, effects bool, v attempter) error {
	message, ok := req.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "sdkgrpc: %s: the request is a %T, not a proto message", method, req)
	}
	body, err := marshal(message)
	if err != nil {
		return status.Errorf(codes.Internal, "sdkgrpc: %s: %v", method, err)
	}
	r := sdk.Request{
		Service: c.service, Operation: strings.TrimPrefix(method, "/"), Path: method, Body: body, ContentType: contentType,
	}
	if effects {
		info, _ := ctx.Value(callInfoKey{}).(CallInfo)
		r.Discriminators, r.Cancels = info.Discriminators, info.Cancels
	} else {
		r.Method = http.MethodGet
	}
	ctx, mark := with(ctx, v)
	r.Header = http.Header{headerMark: {mark}}
	resp, err := c.client.Send(ctx, r)
	if err == nil && !v.wasInvoked() {
		err = &retry.Error{
			Outcome: retry.Completed, Evidence: "a 2xx over HTTP", Service: r.Service, Operation: r.Operation,
			Attempts: resp.Attempts, Status: resp.Status, Header: resp.Header, Err: errForeign,
		}
	}
	return toError(err, v)
}

// errForeign: the service went another way than over the client's connection.
var errForeign = fmt.Errorf("%w: service: neither Service nor ConnectService made it", ErrConfig)

// last is how the last attempt of a call ended.
type last struct {
	mu   sync.Mutex
	made bool // there was an attempt
	end  *status.Status
}

// note notes the end of an attempt. An attempt that ended without a status leaves none.
func (l *last) note(a *answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made, l.end = true, nil
	if err == nil && a.status != nil {
		l.end = status.FromProto(a.status)
	}
}

func (l *last) status() *status.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

func (l *last) wasInvoked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made
}

// An Error is the error of a call of a generated client. It is the [*retry.Error], which has the
// outcome, and a status for code that knows gRPC alone: status.FromError and status.Code read it.
type Error struct {
	err    *retry.Error
	status *status.Status // nil: no attempt ended with one
}

// Error implements error.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the [*retry.Error].
func (e *Error) Unwrap() error { return e.err }

// GRPCStatus returns the status of the last attempt, with its details. Without one it is CANCELED or
// DEADLINE_EXCEEDED if the time ended, UNAVAILABLE if an attempt failed, and INTERNAL if the call was
// refused here.
func (e *Error) GRPCStatus() *status.Status {
	if e.status != nil {
		return e.status
	}
	return localStatus(e.err)
}

// localStatus returns the status of a call that no attempt ended with one.
func localStatus(err *retry.Error) *status.Status {
	switch {
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded), err.Timeout():
		return status.New(codes.DeadlineExceeded, err.Error())
	case err.Attempts > 0:
		return status.New(codes.Unavailable, err.Error())
	default:
		return status.New(codes.Internal, err.Error())
	}
}

// toError returns the error of a call that v made.
func toError(err error, v attempter) error {
	if err == nil {
		return nil
	}
	e := new(Error)
	if !errors.As(err, &e.err) {
		return err
	}
	e.status = v.status()
	return e
}

// hasSideEffects reports whether a method may have some: unless its proto says that it has none.
func hasSideEffects(method string) bool {
	d := findMethod(method)
	if d == nil {
		return true
	}
	options, _ := d.Options().(*descriptorpb.MethodOptions)
	return options.GetIdempotencyLevel() != descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// findMethod returns the descriptor of a method that generated code registered; nil if there is none.
func findMethod(method string) protoreflect.MethodDescriptor {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	m, _ := d.(protoreflect.MethodDescriptor)
	return m
}
