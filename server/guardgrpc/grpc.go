package guardgrpc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fanonce/fanonce/childkey/wire"
)

// ServerOptions returns the options for grpc.NewServer. They chain [Interceptor.Unary] and [Interceptor.Stream] behind the
// interceptors of earlier options. Put those that authenticate before them.
func (i *Interceptor) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(i.Unary), grpc.ChainStreamInterceptor(i.Stream)}
}

var (
	_ grpc.UnaryServerInterceptor  = (*Interceptor)(nil).Unary
	_ grpc.StreamServerInterceptor = (*Interceptor)(nil).Stream
)

// Unary is the grpc.UnaryServerInterceptor that guards the calls, for services that order their interceptors:
//
//	grpc.ChainUnaryInterceptor(authenticate, guarded.Unary, validate)
//
// The interceptors behind it run with the handler: not for a replay, and again if a conflict rolled a Transactional run
// back. The metadata that they and the handler set is sent only if their run is the one that is answered.
func (i *Interceptor) Unary(ctx context.Context, in any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	m := i.methods[info.FullMethod]
	if m == nil {
		return handler(ctx, in)
	}
	md, _ := grpcmetadata.FromIncomingContext(ctx)
	r := &request{method: m, header: md.Get, in: in}
	if r.keyless() {
		return handler(ctx, in)
	}
	outer := grpc.ServerTransportStreamFromContext(ctx)
	resetCompressor := keepCompressor(outer)
	var last *stream
	r.run = func(ctx context.Context) (answer, error) {
		resetCompressor()
		last = &stream{ServerTransportStream: outer, header: metadata{}, trailer: metadata{}}
		out, err := handler(streamContext{ctx, last}, in)
		a := answer{header: last.header, trailer: last.trailer}
		if err == nil {
			a.message = message(out)
		}
		return a, err
	}
	o := i.do(ctx, r)
	if outer != nil {
		if o.answer != nil && last != nil {
			o.header.add(last.header)
			o.trailer.add(last.trailer)
		}
		_ = outer.SetHeader(grpcmetadata.MD(o.header)) // it fails only if the headers are sent, which stream prevents
		if len(o.trailer) > 0 {
			_ = outer.SetTrailer(grpcmetadata.MD(o.trailer))
		}
	}
	if s := o.fails(); s != nil {
		if o.err != nil {
			return nil, o.err // the handler's own, as an interceptor around may expect it
		}
		return nil, status.ErrorProto(s)
	}
	return o.answer.message, nil
}

// Stream is the grpc.StreamServerInterceptor beside [Interceptor.Unary]: it refuses a stream with a key, since a
// repetition would run again. Streams without a key pass.
func (i *Interceptor) Stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	md, _ := grpcmetadata.FromIncomingContext(ss.Context())
	if hasKey(md.Get) {
		return status.ErrorProto(streamStatus())
	}
	return handler(srv, ss)
}

func hasKey(header func(string) []string) bool {
	return len(header(wire.HeaderKey)) > 0 || len(header(wire.HeaderKey+"-Bin")) > 0
}

// A stream keeps a handler's metadata back until the answer is stored.
type stream struct {
	grpc.ServerTransportStream
	mu              sync.Mutex
	header, trailer metadata
}

// SetHeader implements grpc.ServerTransportStream.
func (s *stream) SetHeader(md grpcmetadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header.add(md)
	return nil
}

// SendHeader implements grpc.ServerTransportStream. Nothing is sent before the answer is stored.
func (s *stream) SendHeader(md grpcmetadata.MD) error { return s.SetHeader(md) }

// SetTrailer implements grpc.ServerTransportStream.
func (s *stream) SetTrailer(md grpcmetadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trailer.add(md)
	return nil
}
