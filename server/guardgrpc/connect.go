package guardgrpc

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

var _ connect.Interceptor = (*Interceptor)(nil)

// WrapUnary implements connect.Interceptor, for handlers. Calls of clients pass.
func (i *Interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, in connect.AnyRequest) (connect.AnyResponse, error) {
		m := i.methods[in.Spec().Procedure]
		if m == nil || in.Spec().IsClient {
			return next(ctx, in)
		}
		r := &request{method: m, header: in.Header().Values, in: in.Any()}
		if r.keyless() {
			return next(ctx, in)
		}
		rewind := keepHeaders(ctx, in)
		var last connect.AnyResponse
		r.run = func(ctx context.Context) (a answer, err error) {
			rewind()
			last, err = next(ctx, in)
			a.header, a.trailer = metadata{}, metadata{}
			if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
				a.header.add(info.ResponseHeader())
				a.trailer.add(info.ResponseTrailer())
			}
			if err == nil {
				a.header.add(last.Header())
				a.trailer.add(last.Trailer())
				a.message = message(last.Any())
			}
			return a, err
		}
		o := i.do(ctx, r)
		if o.answer == nil {
			rewind() // what a run set before the guard refused the call
		}
		return respond(ctx, &o, last)
	}
}

// keepHeaders returns a function that makes the headers that connect keeps for the whole call what they are now: the
// request's, and those for the answer that a handler sets by its ctx.
func keepHeaders(ctx context.Context, in connect.AnyRequest) (rewind func()) {
	live := []http.Header{in.Header()}
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		live = append(live, info.ResponseHeader(), info.ResponseTrailer())
	}
	before := make([]http.Header, len(live))
	for i, header := range live {
		before[i] = header.Clone()
	}
	return func() {
		for i, header := range live {
			clear(header)
			maps.Copy(header, before[i].Clone())
		}
	}
}

// respond returns the outcome as the handler's answer; last is that of this call's run, if it made one.
func respond(ctx context.Context, o *outcome, last connect.AnyResponse) (connect.AnyResponse, error) {
	header, trailer := http.Header{}, http.Header{}
	set(header, o.header)
	set(trailer, o.trailer)
	if s := o.fails(); s != nil {
		failed := o.connectError(s)
		maps.Copy(failed.Meta(), header)
		maps.Copy(failed.Meta(), trailer)
		return nil, failed
	}
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		maps.Copy(info.ResponseHeader(), header)
		maps.Copy(info.ResponseTrailer(), trailer)
	}
	if last != nil && last.Any() == any(o.answer.message) {
		return last, nil
	}
	return connect.NewResponse(&replay{o.answer.message}), nil
}

// A replay is a stored message as a response of connect, whose type parameter is not known here.
// It is encoded as the message.
type replay struct{ proto.Message }

// connectError returns the status as an error of connect. It is a new one: a handler may return
// one error for many calls, and metadata is added here.
func (o *outcome) connectError(s *spb.Status) *connect.Error {
	cause := errors.New(s.GetMessage())
	var own *connect.Error
	if errors.As(o.err, &own) && own.Unwrap() != nil {
		cause = own.Unwrap()
	}
	failed := connect.NewError(connect.Code(s.GetCode()), cause) //nolint:gosec // codes are small
	if own != nil {
		maps.Copy(failed.Meta(), own.Meta())
	}
	for _, d := range s.GetDetails() {
		if detail, err := connect.NewErrorDetail(d); err == nil {
			failed.AddDetail(detail)
		}
	}
	return failed
}

// set sets metadata in a header.
func set(header http.Header, md metadata) {
	for name, values := range md {
		header[http.CanonicalHeaderKey(name)] = values
	}
}

// WrapStreamingClient implements connect.Interceptor. Streams of clients pass.
func (i *Interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor: a key on a stream is refused, since a repetition would run again.
func (i *Interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if hasKey(conn.RequestHeader().Values) {
			return (&outcome{}).connectError(streamStatus())
		}
		return next(ctx, conn)
	}
}
