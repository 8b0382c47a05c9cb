package saga_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// A script writes down what a tracer hears. The trace of a ctx is the name of its span.
type script struct {
	engine string
	trace  string // of each call that starts a saga; "": the name of its span

	mu    sync.Mutex
	lines []string
}

// spanName is the key of the present span's name in a ctx.
type spanName struct{}

func span(ctx context.Context) string {
	name, _ := ctx.Value(spanName{}).(string)
	return name
}

func (s *script) write(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *script) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

func (s *script) Trace(ctx context.Context) string {
	if s.trace != "" {
		return s.trace
	}
	return span(ctx)
}

func (s *script) RunStarted(ctx context.Context, e journal.RunEvent) context.Context {
	s.write("run %s of %q", e.Name, e.Trace)
	return context.WithValue(ctx, spanName{}, s.engine)
}

func (s *script) RunEnded(ctx context.Context) { s.write("end %s", span(ctx)) }

func (s *script) StepStarted(ctx context.Context, e saga.Event) context.Context {
	s.write("step %s %v %d in %s", e.Step, e.Undo, e.Attempt, span(ctx))
	return context.WithValue(ctx, spanName{}, fmt.Sprintf("%s/%d", e.Step, e.Attempt))
}

func (s *script) StepEnded(ctx context.Context, e saga.Event) {
	s.write("end %s %v %v", span(ctx), e.Outcome, e.Err != nil)
}

func (s *script) Observe(ctx context.Context, e saga.Event) {
	if e.Kind == saga.EventMoved {
		s.write("%v in %s", e.To, span(ctx))
	}
}

// An engine that takes a saga over gets the trace context of the call that started it. Each attempt has a span
// in the engine's own, and the step's function is called in it.
func TestTracer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		asked := make(chan string, 2)
		d := saga.MustDefine("slow", 1, func(b *saga.Builder[int, int]) {
			saga.Return(b, saga.StepFunc(b, "a.slow", b.Input(), func(ctx context.Context, c saga.Call[int]) (int, error) {
				if asked <- span(ctx); !c.Resumed {
					<-ctx.Done()
					return 0, errors.New("cut off")
				}
				return 7, nil
			}).Output())
		})
		first := &script{engine: "first"}
		one := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{d}, Observer: first})
		_, err := d.Start(context.WithValue(s.Context(), spanName{}, "checkout-1"), one, key(s.T, "k"), 3)
		require.NoError(s, err)
		require.Equal(s, "a.slow/1", <-asked)
		over, cancel := context.WithCancel(context.Background())
		cancel()
		require.Error(s, one.Close(over))

		second := &script{engine: "second"}
		two := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{d}, Observer: second})
		out, err := d.Run(context.WithValue(s.Context(), spanName{}, "asks again"), two, key(s.T, "k"), 3)
		require.NoError(s, err)
		require.Equal(s, 7, out)
		require.NoError(s, two.Close(context.Background()))
		require.Equal(s, "checkout-1", s.read("k").Trace)
		require.ElementsMatch(s, []string{
			`run slow of "checkout-1"`, "running in first", "step a.slow false 1 in first", "end a.slow/1 Unknown true", "end first",
		}, first.written())
		lines := second.written()
		require.Equal(s, `run slow of "checkout-1"`, lines[0])
		require.Contains(s, lines[1], "step a.slow false ")
		require.Contains(s, lines[2], "Completed false")
		require.Equal(s, []string{"completed in second", "end second"}, lines[3:])
	})
}

// A step whose function ends its goroutine ends its span, and so does the saga.
func TestTracer_goexit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		ends := 0
		d := saga.MustDefine("gone", 1, func(b *saga.Builder[int, nothing]) {
			saga.StepFunc(b, "a.gone", b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
				if ends++; ends == 1 {
					runtime.Goexit()
				}
				return nothing{}, nil
			})
		})
		seen := &script{engine: "e"}
		e := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{d}, Observer: seen})
		_, err := d.Run(s.Context(), e, key(s.T, "k"), 3)
		require.NoError(s, err)
		require.NoError(s, e.Close(context.Background()))
		require.Equal(s, []string{
			`run gone of ""`, "running in e", "step a.gone false 1 in e", "end a.gone/1 Unknown true",
			"step a.gone false 2 in e", "end a.gone/2 Completed false", "completed in e", "end e",
		}, seen.written())
	})
}

// A trace context that no journal takes is left out: the saga runs.
func TestTracer_malformed(t *testing.T) {
	t.Parallel()
	for _, trace := range []string{"a b", "ü", strings.Repeat("x", journal.MaxTraceBytes+1)} {
		inBubble(t, func(s *stage) {
			e := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{checkout}, Observer: &script{trace: trace}})
			_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			require.NoError(s, err)
			require.Empty(s, s.read("k").Trace)
			time.Sleep(time.Second)
		})
	}
}
