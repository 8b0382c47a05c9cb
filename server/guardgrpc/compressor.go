package guardgrpc

import (
	"context"
	"runtime"

	"google.golang.org/grpc"
)

// A streamContext is the ctx of one run. Its stream is the run's own, which keeps the metadata back.
//
// grpc.SetSendCompressor and grpc.ClientSupportedCompressors take no stream but grpc-go's own type, which is internal. Both
// say nothing about metadata, so those two functions get the stream of the call. Nothing but the caller's name tells
// them apart: they ask for the same key as grpc.SetHeader. If they have another name one day they return an error again,
// and a test says so.
type streamContext struct {
	context.Context //nolint:containedctx // it is one
	own             *stream
}

// Value implements context.Context.
func (c streamContext) Value(key any) any {
	switch {
	case key != streamKey:
		return c.Context.Value(key)
	case c.own.ServerTransportStream != nil && isAskedByCompression():
		return c.own.ServerTransportStream
	default:
		return grpc.ServerTransportStream(c.own)
	}
}

// streamKey is the key of a call's stream in its ctx. It is internal to grpc-go too.
var streamKey = func() any {
	var asked keyRecorder
	grpc.ServerTransportStreamFromContext(&asked)
	return asked.key
}()

// A keyRecorder is a ctx that notes what it is asked for.
type keyRecorder struct {
	context.Context //nolint:containedctx // nil: only Value is called
	key             any
}

// Value implements context.Context.
func (r *keyRecorder) Value(key any) any {
	r.key = key
	return nil
}

// isAskedByCompression reports whether a function of grpc-go about compression asks for the stream.
func isAskedByCompression() bool {
	var callers [32]uintptr // a few for each ctx of another type around this one
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		switch frame.Function {
		case "google.golang.org/grpc.SetSendCompressor", "google.golang.org/grpc.ClientSupportedCompressors":
			return true
		case "google.golang.org/grpc.SetHeader", "google.golang.org/grpc.SetTrailer", "google.golang.org/grpc.SendHeader":
			return false
		}
		if !more {
			return false
		}
	}
}

// keepCompressor returns a function that gives a stream of grpc-go the compressor back that it has now: the choice of a
// run that is rolled back does not count. Streams of other types have none.
func keepCompressor(s grpc.ServerTransportStream) (reset func()) {
	compressed, ok := s.(interface {
		SendCompress() string
		SetSendCompress(name string) error
	})
	if !ok {
		return func() {}
	}
	before := compressed.SendCompress()
	return func() {
		if compressed.SendCompress() != before {
			_ = compressed.SetSendCompress(before) // it fails only if the headers are sent, which stream prevents
		}
	}
}
