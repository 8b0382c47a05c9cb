package guardgrpc

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
)

// statusOf returns the HTTP status by which the guard decides what becomes of a call with
// this code. A 4xx is stored, except for those that release the key. A 5xx is a failure.
func statusOf(c codes.Code) int {
	switch c {
	case codes.OK:
		return http.StatusOK
	case codes.InvalidArgument, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists:
		return http.StatusConflict
	case codes.FailedPrecondition:
		return http.StatusPreconditionFailed
	case codes.Unimplemented:
		return http.StatusMethodNotAllowed // 501 would be a failure
	case codes.Unauthenticated:
		return http.StatusUnauthorized // this and the next two release the key
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unavailable, codes.Aborted:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

// codeOf returns the gRPC code for the status of a [server.StatusError].
func codeOf(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusServiceUnavailable, http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusTooEarly:
		return codes.Unavailable
	case http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	}
	if httpStatus >= 400 && httpStatus < 500 {
		return codes.FailedPrecondition
	}
	return codes.Internal
}

// statusProto returns the status that err is, as its caller would get it.
func statusProto(err error) *spb.Status {
	var fromConnect *connect.Error
	if errors.As(err, &fromConnect) {
		p := &spb.Status{Code: int32(fromConnect.Code()), Message: fromConnect.Message()} //nolint:gosec // codes are small
		for _, d := range fromConnect.Details() {
			p.Details = append(p.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
		}
		return p
	}
	if s, ok := status.FromError(err); ok {
		return s.Proto()
	}
	return status.FromContextError(err).Proto() // as grpc-go answers an error without a status
}

// problemStatus returns the status of a handler that returned a [server.StatusError].
func problemStatus(e *server.StatusError) *spb.Status {
	return &spb.Status{Code: int32(codeOf(e.Status)), Message: cmp.Or(e.Detail, http.StatusText(e.Status))} //nolint:gosec // codes are small
}

// refusalStatus returns the status of a refusal. It leaves out the text of the cause, which may hold what is not the
// caller's.
func refusalStatus(r *server.RefusedError) *spb.Status {
	s, ok := r.Code.Situation()
	if !ok {
		s = wire.Situation{GRPC: "INTERNAL", Title: "The idempotency layer failed"}
	}
	p := &spb.Status{Code: code.Code_value[s.GRPC], Message: s.Title}
	addDetail(p, &errdetails.ErrorInfo{Reason: r.Code.Reason(), Domain: wire.ErrorDomain})
	if wait, ok := retryAfter(r); ok {
		addDetail(p, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	return p
}

// retryAfter returns how long the caller of a refused call should wait; false if a retry cannot help.
func retryAfter(r *server.RefusedError) (time.Duration, bool) {
	s, _ := r.Code.Situation()
	return max(r.RetryAfter, time.Millisecond), r.Retryable() && (s.RetryAfter || r.Again)
}

func addDetail(p *spb.Status, detail proto.Message) {
	if packed, err := anypb.New(detail); err == nil {
		p.Details = append(p.Details, packed)
	}
}

// scopeRefusal is the refusal of a call whose ScopeFunc returned err. A plain error counts as a
// failure of the service that knows the callers.
func scopeRefusal(err error) *refusedError {
	s := statusProto(err)
	switch codes.Code(s.GetCode()) { //nolint:gosec // codes are small
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition, codes.OutOfRange,
		codes.Unimplemented, codes.Unauthenticated:
		addDetail(s, &errdetails.ErrorInfo{Reason: wire.ScopeMissing.Reason(), Domain: wire.ErrorDomain})
		return &refusedError{RefusedError: server.RefusedError{Code: wire.ScopeMissing, Err: err}, status: s}
	default:
		return refuse(wire.ScopeUnavailable, err)
	}
}

// A refusedError is a refusal of this package, before the guard was asked.
type refusedError struct {
	server.RefusedError
	status *spb.Status
}

func refuse(c wire.Code, err error) *refusedError {
	r := &refusedError{RefusedError: server.RefusedError{Code: c, Err: err}}
	if s, _ := c.Situation(); s.RetryAfter {
		r.RetryAfter = time.Second
	}
	r.status = refusalStatus(&r.RefusedError)
	return r
}

// streamStatus refuses a stream with a key. Package wire has no code for it, because only gRPC has streams.
func streamStatus() *spb.Status {
	p := &spb.Status{Code: int32(codes.Unimplemented), Message: "A call with an idempotency key must be unary: streams are not stored"}
	addDetail(p, &errdetails.ErrorInfo{Reason: "STREAM_NOT_STORED", Domain: wire.ErrorDomain})
	return p
}
