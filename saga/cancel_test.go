package saga_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// A chronicle is what the functions of a saga do, in order.
type chronicle struct {
	mu    sync.Mutex
	lines []string
}

func (c *chronicle) note(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
}

func (c *chronicle) since(line string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, l := range c.lines {
		if l == line {
			return c.lines[i+1:]
		}
	}
	return nil
}

// stages is a saga of four steps of ten seconds, one after the other.
func (c *chronicle) stages() *saga.Definition[order, nothing] {
	return saga.MustDefine("stages", 1, func(b *saga.Builder[order, nothing]) {
		b.UndoBudget(time.Hour)
		var last *saga.StepRef[order, nothing]
		for i := range 4 {
			name := fmt.Sprint("s", i)
			s := saga.StepFunc(b, name+".do", b.Input(), func(_ context.Context, call saga.Call[order]) (nothing, error) {
				if call.Resumed { // the previous owner may have begun it
					c.note(name + " is resumed")
				} else {
					c.note(name + " begins")
				}
				time.Sleep(10 * time.Second)
				c.note(name + " ends")
				return nothing{}, nil
			}).UndoFunc(name+".undo", func(context.Context, saga.UndoCall[order, nothing]) error {
				c.note(name + " is undone")
				return nil
			}).Retention(100 * time.Hour)
			if last != nil {
				s.After(last)
			}
			last = s
		}
	})
}

// After Cancel has returned the old execution begins no further step, in this process and in
// another. A running call is waited for, and is not repeated in the process that runs it.
func TestCancel_beginsNothingMore(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{false, true} {
		t.Run(fmt.Sprintf("elsewhere %v", elsewhere), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				var c chronicle
				d := c.stages()
				e := s.open(d)
				person := e
				if elsewhere {
					person = s.openOn(blind(s.journal), d) // which claims nothing
				}
				_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
				require.NoError(s, err)
				time.Sleep(15 * time.Second)
				begun := time.Now()
				_, err = person.Cancel(s.Context(), s.id("k"), someone)
				require.NoError(s, err)
				if elsewhere {
					require.Equal(s, time.Second, time.Since(begun))
				} else {
					require.Zero(s, time.Since(begun))
				}
				c.note("Cancel returned")
				_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
				require.ErrorIs(s, err, saga.ErrCancelled)
				time.Sleep(time.Minute)
				require.Equal(s, []string{"s1 ends", "s1 is undone", "s0 is undone"}, c.since("Cancel returned"))
			})
		})
	}
}

// A process that another one took the saga from begins no further step of it, although it
// has nothing to write before the end.
func TestCancel_isHeardOfElsewhere(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var here, there chronicle
		d := here.stages()
		_, err := d.Start(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(15 * time.Second)
		same := there.stages()
		person := s.open(same)
		_, err = person.Cancel(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		here.note("Cancel returned")
		_, err = same.Run(s.Context(), person, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCancelled)
		require.Equal(s, []string{"s1 ends"}, here.since("Cancel returned"))
	})
}

// Calls beside each other are waited for as well, and their results are used.
func TestCancel_ofCallsBesideEachOther(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var c chronicle
		d := saga.MustDefine("beside", 1, func(b *saga.Builder[order, nothing]) {
			var all []saga.AnyStep
			for i := range 2 {
				name := fmt.Sprint("s", i)
				all = append(all, saga.StepFunc(b, name+".do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
					time.Sleep(time.Duration(10*(i+1)) * time.Second)
					c.note(name + " ends")
					return nothing{}, nil
				}).UndoFunc(name+".undo", func(context.Context, saga.UndoCall[order, nothing]) error {
					c.note(name + " is undone")
					return nil
				}).Retention(100*time.Hour))
			}
			saga.StepFunc(b, "z.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
				c.note("z begins")
				return nothing{}, nil
			}).UndoFunc("z.undo", undo).Retention(100 * time.Hour).After(all...)
		})
		e := s.open(d)
		_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(5 * time.Second)
		_, err = e.Cancel(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCancelled)
		require.Equal(s, []string{"s0 ends", "s0 is undone", "s1 ends", "s1 is undone"}, c.lines)
	})
}

// blind is a journal that never has an unowned saga.
func blind(j journal.Journal) journal.Journal { return noClaims{j} }

type noClaims struct{ journal.Journal }

func (noClaims) Claim(context.Context, journal.ClaimRequest) ([]journal.Record, error) {
	return nil, nil
}

// A function never runs twice at once in one process: neither after a verb, nor after the
// engine has lost its lease and has got another.
func TestStepFunc_neverBesideItself(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		part func(s *stage, e *saga.Engine, cut *atomic.Bool)
		runs int32
	}{
		{"cancelled", func(s *stage, e *saga.Engine, _ *atomic.Bool) {
			_, err := e.Cancel(s.Context(), s.id("k"), someone)
			require.NoError(s, err)
		}, 1},
		{"its lease is lost", func(_ *stage, _ *saga.Engine, cut *atomic.Bool) {
			cut.Store(true)
			time.Sleep(saga.DefaultLease + time.Second)
			cut.Store(false)
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				var now, most, runs atomic.Int32
				d := saga.MustDefine("deaf", 1, func(b *saga.Builder[order, nothing]) {
					saga.StepFunc(b, "s.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
						runs.Add(1)
						most.Store(max(most.Load(), now.Add(1)))
						defer now.Add(-1)
						time.Sleep(time.Minute) // whatever becomes of its ctx
						return nothing{}, nil
					}).UndoFunc("s.undo", undo)
					step(b, "r.r").ReadOnly()
				})
				j, cut := severable(s.journal)
				e := s.openOn(j, d)
				_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
				require.NoError(s, err)
				time.Sleep(5 * time.Second)
				tt.part(s, e, cut)
				_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
				if tt.name == "cancelled" {
					require.ErrorIs(s, err, saga.ErrCancelled)
				} else {
					require.NoError(s, err)
				}
				require.EqualValues(s, 1, most.Load(), "at once")
				require.Equal(s, tt.runs, runs.Load(), "in all")
			})
		})
	}
}

// A call that fails while the next execution waits for it is made once more, after it.
func TestStepFunc_afterItselfFailed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var now, most, runs atomic.Int32
		d := saga.MustDefine("deaf", 1, func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "s.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				time.Sleep(time.Minute)
				if runs.Add(1) == 1 {
					return nothing{}, saga.Rejected(context.Canceled) // proves nothing: another owner may have come between
				}
				return nothing{}, nil
			}).UndoFunc("s.undo", undo)
			step(b, "r.r").ReadOnly()
		})
		e := s.open(d)
		_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(5 * time.Second)
		_, err = e.Cancel(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCancelled)
		require.EqualValues(s, 1, most.Load())
		require.EqualValues(s, 2, runs.Load())
	})
}

// If the journal has not confirmed a saga's owner for a while, the execution asks it before a
// call. So a saga that another process abandoned makes no further attempt.
func TestAbandon_endsTheTries(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{false, true} {
		inBubble(t, func(s *stage) {
			var c declining
			d := saga.MustDefine("plain", 1, func(b *saga.Builder[order, nothing]) { c.step(b).UndoFunc("bank.recall", c.undo) })
			e := s.open(d)
			person := e
			if elsewhere {
				person = s.open(d)
			}
			_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
			require.NoError(s, err)
			time.Sleep(30 * time.Second)
			_, err = person.Abandon(s.Context(), s.id("k"), someone)
			require.NoError(s, err)
			tries := c.tries.Load()
			time.Sleep(time.Hour)
			require.Equal(s, tries, c.tries.Load())
			require.Zero(s, c.undone.Load())
		})
	}
}

// A saga that has just been started or claimed is not in the engine's memory yet. After Cancel
// has returned it begins no step either. Only its next owner finds out about steps that may have
// begun.
func TestCancel_beforeTheExecutionBegins(t *testing.T) {
	t.Parallel()
	for _, late := range []string{"Start", "Claim"} {
		for _, by := range []time.Duration{500 * time.Millisecond, 3 * time.Second} {
			inBubble(t, func(s *stage) {
				var c chronicle
				d := c.stages()
				j := tap(s.journal)
				var quick atomic.Bool
				j.after = func(method string, _ int) error {
					if method == late && !quick.Load() {
						time.Sleep(by)
					}
					return nil
				}
				if late == "Claim" {
					enqueue(s, d, "k", basket)
				}
				e := s.openOn(j, d)
				started := make(chan struct{})
				go func() {
					defer close(started)
					_, _ = d.Start(s.Context(), e, key(s.T, "k"), basket)
				}()
				time.Sleep(100 * time.Millisecond)
				quick.Store(true)
				require.False(s, s.read("k").Engine.IsZero())
				_, err := e.Cancel(s.Context(), s.id("k"), someone)
				require.NoError(s, err)
				c.note("Cancel returned")
				<-started
				s.until("k", journal.Compensated)
				for _, line := range c.since("Cancel returned") {
					require.NotContains(s, line, "begins", "%s answered %v late", late, by)
				}
			})
		}
	}
}

// An execution that waits for a call of an earlier one, and that a verb takes the saga from, ends:
// it holds no place until the engine is closed.
func TestAbandon_whileAnEarlierCallRuns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("deaf", 1, func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "s.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
				time.Sleep(time.Minute) // whatever becomes of its ctx
				return nothing{}, nil
			}).UndoFunc("s.undo", undo)
			step(b, "r.r").ReadOnly()
		})
		j := &rooms{Journal: s.journal}
		e := s.openWith(j, saga.Config{Definitions: []saga.AnyDefinition{d}, MaxActive: 10})
		_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(5 * time.Second)
		require.EqualValues(s, 9, j.last.Load())
		_, err = e.Cancel(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		time.Sleep(5 * time.Second)
		require.Equal(s, journal.Compensating, s.read("k").Status, "its next owner waits for the call")
		_, err = e.Abandon(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		time.Sleep(2 * time.Minute)
		require.EqualValues(s, 10, j.last.Load(), "an execution of the abandoned saga holds a place")
	})
}

// rooms is a journal that remembers for how many sagas an engine had room last.
type rooms struct {
	journal.Journal
	last atomic.Int64
}

func (j *rooms) Claim(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
	j.last.Store(int64(req.Limit))
	return j.Journal.Claim(ctx, req)
}
