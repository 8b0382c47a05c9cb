package saga_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// Each has a name that its stack shows.
func panicsForward(context.Context, saga.Call[order]) (nothing, error)    { panic("forward") }
func panicsBackward(context.Context, saga.UndoCall[order, nothing]) error { panic("backward") }
func panicsInMap(order) order                                             { panic("in a map") }

func endsForward(context.Context, saga.Call[order]) (nothing, error) {
	runtime.Goexit()
	return nothing{}, nil
}

// Whatever function of a plan panics: the engine goes on, and tells where it was.
func TestPanics_areTold(t *testing.T) {
	t.Parallel()
	fine := func(context.Context, saga.Call[order]) (nothing, error) { return nothing{}, nil }
	refused := func(context.Context, saga.Call[order]) (nothing, error) {
		return nothing{}, saga.Rejected(errors.New("no"))
	}
	tests := []struct {
		name  string
		build func(b *saga.Builder[order, nothing])
		text  string
		stack string // "": none
	}{
		{"a step", func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "a.do", b.Input(), panicsForward).UndoFunc("a.undo", undo)
		}, "step a.do: saga: panic: forward", "panicsForward"},
		{"an undo", func(b *saga.Builder[order, nothing]) {
			done := saga.StepFunc(b, "a.do", b.Input(), fine).UndoFunc("a.undo", panicsBackward)
			saga.StepFunc(b, "b.do", b.Input(), refused).After(done)
		}, "undo of a.do: saga: panic: backward", "panicsBackward"},
		{"an input", func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "a.do", saga.Map(b.Input(), panicsInMap), fine)
		}, "step a.do: ", "panicsInMap"},
		{"a function that ends its goroutine, which is the saga's", func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "a.do", b.Input(), endsForward).UndoFunc("a.undo", undo).TryTimeout(time.Millisecond)
		}, "step a.do: saga: panic: runtime.Goexit", ""},
	}
	for _, tt := range tests {
		inBubble(t, func(s *stage) {
			d := saga.MustDefine("bad", 1, func(b *saga.Builder[order, nothing]) {
				b.Timeout(time.Second)
				b.UndoBudget(4 * time.Second)
				tt.build(b)
			})
			log := &lines{}
			e := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{d}, Logger: slog.New(slog.NewJSONHandler(log, nil))})
			_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
			require.Error(s, err, tt.name)

			s.events.mu.Lock()
			begun := 0
			for _, move := range s.events.moves {
				if move.From == 0 {
					begun++
				}
			}
			s.events.mu.Unlock()
			require.Equal(s, 1, begun, "%s: started in the eyes of observers", tt.name)
			event := s.events.first(saga.EnginePanic)
			require.Equal(s, s.id("k"), event.ID, tt.name)
			require.ErrorIs(s, event.Err, saga.ErrPanic, tt.name)
			require.ErrorContains(s, event.Err, tt.text, tt.name)
			var panicked *saga.PanicError
			require.ErrorAs(s, event.Err, &panicked, tt.name)
			require.Contains(s, string(panicked.Stack), tt.stack, tt.name)

			var line struct{ Level, Msg, ID, Err, Stack string }
			for text := range bytes.Lines([]byte(log.String())) {
				require.NoError(s, json.Unmarshal(text, &line))
				if line.Msg == "saga: engine panic" {
					break
				}
			}
			require.Equal(s, "ERROR", line.Level, tt.name)
			require.Equal(s, s.id("k").String(), line.ID, tt.name)
			require.Equal(s, event.Err.Error(), line.Err, tt.name)
			require.Equal(s, string(panicked.Stack), line.Stack, tt.name)
		})
	}
}

// A failure without a panic is none.
func TestPanics_noneIsTold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("payment.charge", sagatest.Reject(402))
		_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		require.ErrorIs(s, err, retry.ErrRejected)
		require.Zero(s, s.events.count(saga.EnginePanic))
	})
}

// A touchy observer panics in the methods of that name, after it has noted what it heard.
type touchy struct {
	*events
	in string // "": all
}

func (t touchy) TryEnded(ctx context.Context, e saga.TryEvent) {
	t.events.TryEnded(ctx, e)
	t.panicIn("TryEnded")
}

func (t touchy) SagaMoved(ctx context.Context, e saga.MoveEvent) {
	t.events.SagaMoved(ctx, e)
	t.panicIn("SagaMoved")
}

func (t touchy) EngineEvent(ctx context.Context, e saga.EngineEvent) {
	t.events.EngineEvent(ctx, e)
	t.panicIn("EngineEvent")
}

func (t touchy) panicIn(method string) {
	if t.in == method || t.in == "" {
		panic("touchy")
	}
}

// Whoever listens can neither end the process nor make a saga stuck, and what it heard
// the others hear too.
func TestObserver_panics(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"TryEnded", "SagaMoved", "EngineEvent", ""} {
		inBubble(t, func(s *stage) {
			d := saga.MustDefine("bad", 1, func(b *saga.Builder[order, nothing]) {
				b.Timeout(time.Second)
				b.UndoBudget(4 * time.Second)
				saga.StepFunc(b, "a.do", b.Input(), panicsForward).UndoFunc("a.undo", undo)
				saga.StepFunc(b, "b.do", b.Input(), panicsForward).UndoFunc("b.undo", undo)
			})
			log := &lines{}
			e := s.openWith(s.journal, saga.Config{
				Definitions: []saga.AnyDefinition{d}, Observer: touchy{s.events, in}, Logger: slog.New(slog.NewTextHandler(log, nil)),
			})
			_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrCompensated, in)
			_, err = e.Abandon(s.Context(), enqueue(s, checkout, "parked", basket), someone)
			require.NoError(s, err)
			text := log.String()
			require.Contains(s, text, `msg="saga: engine panic" id=`+s.id("k").String()+` err="observer: saga: panic: touchy"`, in)
			require.Contains(s, text, `err="step a.do: saga: panic: forward"`, in)
			require.Contains(s, text, `to=compensated`, in)
			told := 0
			s.events.mu.Lock()
			defer s.events.mu.Unlock()
			for _, event := range s.events.engine {
				if event.Kind == saga.EnginePanic && event.Err.Error() == "observer: saga: panic: touchy" {
					told++
				}
			}
			require.Positive(s, told, in)
		})
	}
}
