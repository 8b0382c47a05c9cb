package saga_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// slowly works for 20 s, and returns what ended makes of its ctx's end.
func slowly(ended func(ctx context.Context) error) func(context.Context, saga.Call[order]) (nothing, error) {
	return func(ctx context.Context, _ saga.Call[order]) (nothing, error) {
		select {
		case <-ctx.Done():
			return nothing{}, ended(ctx)
		case <-time.After(20 * time.Second):
			return nothing{}, nil
		}
	}
}

// slowToAnswer is a journal whose first answer to a write takes until after the cut-off: then the execution finds
// the end of its lease together with the ends of its calls. It is told late that the engine leaves.
func slowToAnswer(j journal.Journal) *tapped {
	slow := tap(j)
	slow.after = func(method string, n int) error {
		if method == "Append" && n == 1 {
			time.Sleep(10 * time.Second)
		}
		return nil
	}
	slow.before = func(method string, _ int) error {
		if method == "Leave" {
			time.Sleep(15 * time.Second)
		}
		return nil
	}
	return slow
}

// An attempt that its own process cuts off is none, whatever its function says of it, and even where it is the
// step's only one. The next owner makes it.
func TestAttempt_isCutOff(t *testing.T) {
	t.Parallel()
	says := map[string]func(ctx context.Context) error{
		"the end of ctx": func(ctx context.Context) error { return ctx.Err() },
		"Rejected":       func(ctx context.Context) error { return saga.Rejected(ctx.Err()) },
		"Permanent":      func(ctx context.Context) error { return saga.Permanent(context.Cause(ctx)) },
		"NotSent":        func(context.Context) error { return saga.NotSent(errors.New("no time")) },
		"another error":  func(context.Context) error { return errors.New("query: conn closed") },
	}
	quick := func(context.Context, saga.Call[order]) (nothing, error) {
		time.Sleep(4 * time.Second)
		return nothing{}, nil
	}
	once := saga.RetryPolicy{Attempts: 1}
	plans := map[string]func(b *saga.Builder[order, nothing], fn func(context.Context, saga.Call[order]) (nothing, error)){
		"a step": func(b *saga.Builder[order, nothing], fn func(context.Context, saga.Call[order]) (nothing, error)) {
			saga.StepFunc(b, "a.one", b.Input(), fn).UndoFunc("a.undo", undo).Retry(once)
			saga.StepFunc(b, "a.quick", b.Input(), quick).ReadOnly()
		},
		"the pivot": func(b *saga.Builder[order, nothing], fn func(context.Context, saga.Call[order]) (nothing, error)) {
			saga.StepFunc(b, "a.one", b.Input(), fn).Pivot().Retry(once)
		},
		"two steps": func(b *saga.Builder[order, nothing], fn func(context.Context, saga.Call[order]) (nothing, error)) {
			saga.StepFunc(b, "a.one", b.Input(), fn).UndoFunc("a.undo", undo).Retry(once)
			saga.StepFunc(b, "a.two", b.Input(), fn).UndoFunc("a.undo2", undo).Retry(once)
			saga.StepFunc(b, "a.quick", b.Input(), quick).ReadOnly()
		},
	}
	cuts := map[string]func(s *stage, j *tapped, d saga.AnyDefinition, start func(e *saga.Engine)){
		"closed": func(s *stage, j *tapped, d saga.AnyDefinition, start func(e *saga.Engine)) {
			e := s.openOn(j, d)
			start(e)
			ctx, cancel := context.WithTimeout(s.Context(), time.Second)
			defer cancel()
			require.ErrorIs(s, e.Close(ctx), context.DeadlineExceeded)
		},
		"its lease is lost": func(s *stage, j *tapped, d saga.AnyDefinition, start func(e *saga.Engine)) {
			start(s.openWith(beatsOnce(j), saga.Config{Definitions: []saga.AnyDefinition{d}, Lease: 12 * time.Second}))
			time.Sleep(12 * time.Second)
		},
	}
	for plan, build := range plans {
		for said, ended := range says {
			for cut, cutOff := range cuts {
				t.Run(fmt.Sprintf("%s, %s, %s", plan, said, cut), func(t *testing.T) {
					for range 5 { // to choose at random would show
						inBubble(t, func(s *stage) {
							d := saga.MustDefine("slow", 1, func(b *saga.Builder[order, nothing]) { build(b, slowly(ended)) })
							cutOff(s, slowToAnswer(s.journal), d, func(e *saga.Engine) {
								_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
								require.NoError(s, err)
								time.Sleep(5 * time.Second)
							})
							_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
							require.NoError(s, err)
							for _, entry := range s.read("k").Entries {
								require.LessOrEqual(s, entry.Attempts, 1)
							}
						})
					}
				})
			}
		}
	}
}

// The Timeout of a step that is cut off each time passes all the same.
func TestAttempt_isCutOffPastItsTimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("slow", 1, func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "a.one", b.Input(), slowly(context.Cause)).UndoFunc("a.undo", undo).Timeout(30 * time.Second)
		})
		e := s.open(d)
		_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		for range 4 {
			time.Sleep(9 * time.Second)
			cut, cancel := context.WithCancel(s.Context())
			cancel()
			_ = e.Close(cut)
			e = s.open(d)
		}
		_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		r := s.read("k")
		require.Equal(s, journal.ReasonTimeout, r.Cause.Reason)
	})
}

// A function that waits for another saga of an engine that is being closed is cut off too.
func TestAttempt_isCutOffWhileItRunsASaga(t *testing.T) {
	t.Parallel()
	for _, stated := range []bool{false, true} {
		t.Run(fmt.Sprint("stated ", stated), func(t *testing.T) {
			inBubble(t, func(s *stage) {
				inner := saga.MustDefine("inner", 1, func(b *saga.Builder[order, nothing]) {
					saga.StepFunc(b, "i.one", b.Input(), slowly(context.Cause)).ReadOnly()
				})
				var e *saga.Engine
				outer := saga.MustDefine("outer", 1, func(b *saga.Builder[order, nothing]) {
					saga.StepFunc(b, "o.one", b.Input(), func(ctx context.Context, c saga.Call[order]) (nothing, error) {
						time.Sleep(5 * time.Second)
						_, err := inner.Run(ctx, e, c.Key, c.Input)
						if stated {
							return nothing{}, saga.Rejected(err)
						}
						return nothing{}, err
					}).UndoFunc("o.undo", undo).Retry(saga.RetryPolicy{Attempts: 1})
				})
				e = s.open(inner, outer)
				_, err := outer.Start(s.Context(), e, key(s.T, "k"), basket)
				require.NoError(s, err)
				time.Sleep(time.Second)
				require.NoError(s, e.Close(s.Context()))
				e = s.open(inner, outer)
				_, err = outer.Run(s.Context(), e, key(s.T, "k"), basket)
				require.NoError(s, err)
			})
		})
	}
}
