package retry_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

type spanKey struct{}

func spanOf(ctx context.Context) string {
	span, _ := ctx.Value(spanKey{}).(string)
	return span
}

// A tracer opens spans, and notes in which one everything happens.
type tracer struct {
	mu  sync.Mutex
	log []string
}

func (t *tracer) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = append(t.log, fmt.Sprintf(format, args...))
}

func (t *tracer) CallStarted(ctx context.Context, e retry.CallEvent) context.Context {
	t.note("call of %s.%s in %s", e.Service, e.Operation, spanOf(ctx))
	return context.WithValue(ctx, spanKey{}, "call")
}

func (t *tracer) AttemptStarted(ctx context.Context, e retry.AttemptEvent) context.Context {
	t.note("attempt %d, caller retries: %v, in %s", e.Number, e.CallerRetries, spanOf(ctx))
	return context.WithValue(ctx, spanKey{}, fmt.Sprintf("attempt %d", e.Number))
}

func (t *tracer) AttemptEnded(ctx context.Context, e retry.AttemptEvent) {
	t.note("attempt ended with %d in %s", e.Status, spanOf(ctx))
}

func (t *tracer) CallEnded(ctx context.Context, e retry.CallEvent) {
	t.note("call ended %v in %s", e.Outcome, spanOf(ctx))
}

func TestTracer(t *testing.T) {
	t.Parallel()
	tr := &tracer{}
	rt := script(status(503), status(200))
	cfg := over(rt)
	cfg.Observer = tr
	cfg.Prepare = func(_ int, r *http.Request) error {
		r.Header.Set("Traceparent", spanOf(r.Context()))
		return nil
	}
	_, err := newClient(t, cfg).Send(context.WithValue(t.Context(), spanKey{}, "root"), post(stubURL))
	require.NoError(t, err)
	require.Equal(t, []string{
		"call of payment.charge in root",
		"attempt 1, caller retries: true, in call", "attempt ended with 503 in attempt 1",
		"attempt 2, caller retries: true, in call", "attempt ended with 200 in attempt 2",
		"call ended Completed in call",
	}, tr.log)
	require.Equal(t, "attempt 1 attempt 2", rt.header("Traceparent"))
	require.Equal(t, "attempt 2", spanOf(rt.requests[1].Context()), "for a transport that traces by itself")
}

// A call that is never sent begins and ends all the same.
func TestTracer_invalidCall(t *testing.T) {
	t.Parallel()
	tr := &tracer{}
	cfg := over(script(status(200)))
	cfg.Observer = tr
	failure(t, newClient(t, cfg), retry.Call{Service: "payment", Operation: "charge"})
	require.Equal(t, []string{"call of payment.charge in ", "call ended NotSent in call"}, tr.log)
}

func TestTracer_do(t *testing.T) {
	t.Parallel()
	tr := &tracer{}
	cfg := quick
	cfg.Observer = tr
	var spans []string
	_, err := retry.Do(t.Context(), newClient(t, cfg), retry.Task{Service: "queue", Operation: "publish", Key: key},
		func(ctx context.Context, a retry.Attempt) (int, error) {
			spans = append(spans, spanOf(ctx))
			if a.Number == 1 {
				return 0, errBroken
			}
			return 0, nil
		}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"attempt 1", "attempt 2"}, spans)
	require.Equal(t, "call ended Completed in call", tr.log[len(tr.log)-1])
}

// An observer that is not a tracer, and a logger beside a tracer, still get the same events.
func TestTracer_besideLogger(t *testing.T) {
	t.Parallel()
	tr := &tracer{}
	cfg := over(script(status(200)))
	cfg.Observer, cfg.Logger = tr, slog.New(slog.DiscardHandler)
	_, err := newClient(t, cfg).Send(t.Context(), post(stubURL))
	require.NoError(t, err)
	require.Equal(t, "call ended Completed in call", tr.log[len(tr.log)-1])
}
