package saga_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
	"github.com/fanonce/fanonce/sdk"
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
		}, "step a.do: sdk: panic: forward", "panicsForward"},
		{"an undo", func(b *saga.Builder[order, nothing]) {
			done := saga.StepFunc(b, "a.do", b.Input(), fine).UndoFunc("a.undo", panicsBackward)
			saga.StepFunc(b, "b.do", b.Input(), refused).After(done)
		}, "undo of a.do: sdk: panic: backward", "panicsBackward"},
		{"an input", func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "a.do", saga.Map(b.Input(), panicsInMap), fine)
		}, "step a.do: ", "panicsInMap"},
		{"a function that ends its goroutine, which is the saga's", func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "a.do", b.Input(), endsForward).UndoFunc("a.undo", undo).AttemptTimeout(time.Millisecond)
		}, "step a.do: sdk: panic: runtime.Goexit", ""},
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
			event := s.events.first(saga.EventPanic)
			require.Equal(s, s.id("k"), event.ID, tt.name)
			require.ErrorIs(s, event.Err, sdk.ErrPanic, tt.name)
			require.ErrorContains(s, event.Err, tt.text, tt.name)
			var panicked *sdk.PanicError
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
		require.Zero(s, s.events.count(saga.EventPanic))
	})
}

// The panic of a fan-out's branch, which the function returns as an error, is the function's own.
func TestPanics_ofABranchIsNotTold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		client, err := s.services.Client("inventory")
		require.NoError(s, err)
		d := saga.MustDefine("fan", 1, func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "a.do", b.Input(), func(ctx context.Context, _ saga.Call[order]) (nothing, error) {
				fan := client.Fanout(ctx)
				sdk.AddFunc(fan, "branch", func(context.Context) (nothing, error) { panic("in a branch") })
				return nothing{}, saga.Permanent(fan.Wait())
			}).UndoFunc("a.undo", undo)
		})
		_, err = d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.Zero(s, s.events.count(saga.EventPanic))
	})
}

// A touchy observer panics at events of that kind, after it has noted what it heard.
type touchy struct {
	*events
	in journal.EventKind // "": all; "engine": those of the engine
}

func (t touchy) Observe(ctx context.Context, e saga.Event) {
	t.events.Observe(ctx, e)
	kind := e.Kind
	if kind != saga.EventAttempt && kind != saga.EventMoved {
		kind = "engine"
	}
	if t.in == kind || t.in == "" {
		panic("touchy")
	}
}

// An observer that panics can neither end the process nor make a saga stuck. The other observers
// get its events too.
func TestObserver_panics(t *testing.T) {
	t.Parallel()
	for _, in := range []journal.EventKind{saga.EventAttempt, saga.EventMoved, "engine", ""} {
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
			_, err = e.Abandon(s.Context(), enqueue(s, checkout, "deferred", basket), someone)
			require.NoError(s, err)
			text := log.String()
			require.Contains(s, text, `msg="saga: engine panic" id=`+s.id("k").String()+` err="observer: sdk: panic: touchy"`, in)
			require.Contains(s, text, `err="step a.do: sdk: panic: forward"`, in)
			require.Contains(s, text, `to=compensated`, in)
			told := 0
			s.events.mu.Lock()
			defer s.events.mu.Unlock()
			for _, event := range s.events.engine {
				if event.Kind == saga.EventPanic && event.Err.Error() == "observer: sdk: panic: touchy" {
					told++
				}
			}
			require.Positive(s, told, in)
		})
	}
}

// A rudeError panics where somebody asks it what it says.
type rudeError struct{}

func (rudeError) Error() string { panic("asked") }

// An unusable error of a function proves no outcome, and ends no process. Such errors are a
// wrapped nil pointer, and an error whose own methods panic.
func TestPanics_ofErrors(t *testing.T) {
	t.Parallel()
	var noCall *retry.Error
	var noSaga *saga.Error
	var noFanout *sdk.FanoutError
	for _, tt := range []struct {
		name string
		err  error
	}{
		{"a wrapped nil *retry.Error", fmt.Errorf("pay: %w", noCall)},
		{"a joined nil *retry.Error", errors.Join(errors.New("no"), noCall)},
		{"a nil *saga.Error", noSaga},
		{"a wrapped nil *saga.Error", fmt.Errorf("pay: %w", noSaga)},
		{"a nil *sdk.FanoutError", noFanout},
		{"Permanent of a nil *retry.Error", saga.Permanent(fmt.Errorf("pay: %w", noCall))},
		{"NotSent of a nil *retry.Error", saga.NotSent(noCall)},
		{"an error that panics", rudeError{}},
		{"a wrapped error that panics", errors.Join(rudeError{})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				var undos atomic.Int32
				d := saga.MustDefine("rude", 1, func(b *saga.Builder[order, nothing]) {
					saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
						return nothing{}, tt.err
					}).Retry(saga.RetryPolicy{Attempts: 2}).UndoFunc("a.undo", func(context.Context, saga.UndoCall[order, nothing]) error {
						if undos.Add(1) == 1 {
							return tt.err
						}
						return nil
					})
					step(b, "b.do").ReadOnly()
				})
				e := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{d}, Logger: slog.New(slog.NewJSONHandler(&lines{}, nil))})
				_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
				require.Error(s, err)
				require.Contains(s, []journal.Status{journal.Compensated, journal.Stuck}, s.read("k").Status)
				require.NotEqual(s, retry.Rejected, s.events.triesOf("a.do", false)[0].Outcome)
			})
		})
	}
}

// The outcome that a function states counts, even for a nil error value.
func TestRejected_ofANilError(t *testing.T) {
	t.Parallel()
	var none *retry.Error
	for _, wrap := range []func(error) error{saga.Rejected, saga.NotSent, saga.Permanent} {
		require.NotEmpty(t, wrap(none).Error())
		require.ErrorAs(t, wrap(fmt.Errorf("pay: %w", none)), new(*retry.Error))
	}
}
