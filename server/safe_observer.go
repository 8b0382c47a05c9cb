package server

import (
	"context"
	"log/slog"

	"github.com/fanonce/fanonce/server/internal/engine"
)

// recoverObserver logs a panic of the Observer. An Observer is called in the middle of a run, in the goroutine of the
// heartbeat and while a panic of the handler goes on: its own panic must change none of them. It is deferred.
func (g *Guard) recoverObserver(ctx context.Context, method string) {
	if v := recover(); v != nil {
		g.log.write(ctx, logLine{Line: engine.Line{
			Level: slog.LevelError, Message: "Observer panicked: its event is lost", Err: toPanicError("Observer."+method, v),
		}})
	}
}

// A safeTracer is a Tracer whose panics change nothing.
type safeTracer struct {
	guard  *Guard
	tracer Tracer
}

func (s *safeTracer) CallStarted(ctx context.Context, e CallEvent) (in context.Context) {
	in = ctx
	defer s.guard.recoverObserver(ctx, "CallStarted")
	return s.tracer.CallStarted(ctx, e)
}

func (s *safeTracer) CallEnded(ctx context.Context) {
	defer s.guard.recoverObserver(ctx, "CallEnded")
	s.tracer.CallEnded(ctx)
}

func (s *safeTracer) RunStarted(ctx context.Context, e CallEvent) (in context.Context) {
	in = ctx
	defer s.guard.recoverObserver(ctx, "RunStarted")
	return s.tracer.RunStarted(ctx, e)
}

func (s *safeTracer) RunEnded(ctx context.Context) {
	defer s.guard.recoverObserver(ctx, "RunEnded")
	s.tracer.RunEnded(ctx)
}

func (s *safeTracer) Trace(ctx context.Context) string {
	defer s.guard.recoverObserver(ctx, "Trace")
	return s.tracer.Trace(ctx)
}
