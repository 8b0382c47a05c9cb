package sdkgrpc

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// DialOptions returns the options for the connections that this package uses. They disable gRPC's
// own retries, since two layers of retries multiply. And they show whether a call was sent at all, and how it ended
// below the interceptors of the connection: without them every failure without the mark of a guard is Unknown, where it
// could be NotSent or Rejected. Give them before the options with interceptors of your own.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDisableRetry(), grpc.WithStatsHandler(watcher{}), grpc.WithChainUnaryInterceptor(watch)}
}

// An evidence is what one attempt let be seen of its way. It speaks in the hooks by which package
// retry learns the same of a request over HTTP.
type evidence struct {
	method  string                          // of an operation; "" for a generated client's call
	trace   *httptrace.ClientTrace          // nil: nobody listens
	watched atomic.Bool                     // the connection has our DialOptions
	sent    atomic.Bool                     // the headers were written, or nobody can know
	whole   atomic.Bool                     // the message was written, too
	header  atomic.Pointer[stats.OutHeader] // the last that was seen: a connection may have our DialOptions twice
	ended   atomic.Int64                    // the code that the last call over the connection ended with, plus 1; 0: none did
}

type evidenceKey struct{}

func evidenceFrom(ctx context.Context) *evidence {
	e, _ := ctx.Value(evidenceKey{}).(*evidence)
	return e
}

// begin says that the attempt looks for a connection.
func (e *evidence) begin() {
	if e.trace != nil && e.trace.GetConn != nil {
		e.trace.GetConn("grpc")
	}
}

// noteDelivery says that the headers of the call were written. gRPC itself may deliver a call again that
// its server did not process.
func (e *evidence) noteDelivery() {
	e.sent.Store(true)
	if e.trace != nil && e.trace.GotConn != nil {
		e.trace.GotConn(httptrace.GotConnInfo{})
	}
}

// end counts a call as sent if nobody has watched it.
func (e *evidence) end() {
	if !e.watched.Load() {
		e.noteDelivery()
	}
}

// watch is the interceptor that is nearest to the connection.
func watch(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if e := evidenceFrom(ctx); e != nil {
		e.watched.Store(true)
	}
	return invoker(ctx, method, req, reply, cc, opts...)
}

// A watcher sees headers and messages of calls leave, and how calls ended before interceptors had a say.
type watcher struct{}

// TagRPC implements stats.Handler.
func (watcher) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (watcher) HandleRPC(ctx context.Context, s stats.RPCStats) {
	e := evidenceFrom(ctx)
	if e == nil || !s.IsClient() {
		return
	}
	switch s := s.(type) {
	case *stats.OutHeader:
		if e.header.Swap(s) != s {
			e.noteDelivery()
		}
	case *stats.OutPayload:
		e.whole.Store(true)
	case *stats.End:
		e.ended.Store(int64(status.Code(s.Error)) + 1)
	}
}

// TagConn implements stats.Handler.
func (watcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (watcher) HandleConn(context.Context, stats.ConnStats) {}
