package saga_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// Past the pivot nothing is undone: what follows is tried until it works.
func TestPivot_retriableIsTriedOn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("mail.receipt", sagatest.Delay(time.Second, sagatest.Unavailable()), sagatest.Always(sagatest.Unavailable()))
		e := s.open(checkout)
		ctx, cancel := context.WithTimeout(s.Context(), 90*time.Minute) // longer than the steps before may take
		defer cancel()
		_, err := checkout.Run(ctx, e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrDetached)
		require.Equal(s, journal.Running, s.read("k").Status)
		s.services.Script("mail.receipt")
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		s.wantEffects("mail.receipt", 1, 0)
		s.wantEffects("inventory.reserve", 1, 0)
	})
}

func TestPivot_retriableIsStuckInTheEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("mail.receipt", sagatest.Always(sagatest.LoseRequest()))
		begun := time.Now()
		_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		require.ErrorIs(s, err, saga.ErrTimeout)
		require.Equal(s, undoBudget, time.Since(begun))
		s.wantEffects("inventory.reserve", 1, 0)
		s.wantEffects("shipping.book", 1, 0)
	})
}

// A refusal past the pivot is for people: nothing is undone for it.
func TestPivot_refusedAfter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("mail.receipt", sagatest.Reject(422))
		e := s.open(checkout)
		_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		require.ErrorIs(s, err, retry.ErrRejected)
		s.wantEffects("inventory.reserve", 1, 0)
		_, err = e.Cancel(s.Context(), s.id("k"), someone)
		require.ErrorIs(s, err, saga.ErrConflict)
	})
}

// While nobody knows whether the pivot happened, nothing is undone, even if the
// saga's time is up or somebody cancels it.
func TestPivot_unknownIsFoundOut(t *testing.T) {
	t.Parallel()
	short := saga.MustDefine("short", 1, func(b *saga.Builder[order, receipt]) {
		shop(b)
		b.Timeout(time.Minute)
	})
	for _, tt := range []struct {
		name    string
		happens bool
		cancel  bool
	}{{"it happened", true, false}, {"it did not", false, false}, {"it happened, cancelled", true, true}, {"it did not, cancelled", false, true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				first := sagatest.LoseRequest()
				if tt.happens {
					first = sagatest.LoseAnswer()
				}
				s.services.Script("shipping.book", first, sagatest.Always(sagatest.Unavailable()))
				e := s.open(short)
				_, err := short.Start(s.Context(), e, key(s.T, "k"), basket)
				require.NoError(s, err)
				time.Sleep(30 * time.Second)
				if tt.cancel {
					_, err := e.Cancel(s.Context(), s.id("k"), someone)
					require.ErrorIs(s, err, saga.ErrConflict, "it may be past the point where it could be undone")
				}
				time.Sleep(time.Minute)
				require.Equal(s, journal.Running, s.read("k").Status)
				s.wantEffects("inventory.reserve", 1, 0)
				if tt.happens {
					s.services.Script("shipping.book")
					s.until("k", journal.Completed)
					s.wantEffects("inventory.reserve", 1, 0)
					return
				}
				s.services.Script("shipping.book", sagatest.Always(sagatest.Reject(409)))
				s.until("k", journal.Compensated)
				s.wantEffects("inventory.reserve", 1, 1)
				s.wantEffects("shipping.book", 0, 0)
			})
		})
	}
}

func TestPivot_unknownForGood(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("shipping.book", sagatest.Always(sagatest.Forget(true)))
		e := s.open(checkout)
		_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		s.wantEffects("inventory.reserve", 1, 0)
		s.wantEffects("payment.charge", 1, 0)
		// Somebody found out.
		_, err = e.ForceOK(s.Context(), s.id("k"), "shipping.book", parcel{"by hand"}, someone)
		require.NoError(s, err)
		got, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Equal(s, receipt{"by hand"}, got)
		s.wantEffects("mail.receipt", 1, 0)
	})
}

// The order of compensation: what depends on a step is undone before it, and
// what is independent at the same time.
func TestCompensate_order(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var undoing, most atomic.Int32
		order := make(chan string, 10)
		slow := func(name string) func(context.Context, saga.UndoCall[order1, nothing]) error {
			return func(context.Context, saga.UndoCall[order1, nothing]) error {
				if n := undoing.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				undoing.Add(-1)
				order <- name
				return nil
			}
		}
		d := saga.MustDefine("tree", 1, func(b *saga.Builder[order1, nothing]) {
			add := func(name string, after ...saga.AnyStep) *saga.StepRef[order1, nothing] {
				return saga.StepFunc(b, name+".do", b.Input(), func(context.Context, saga.Call[order1]) (nothing, error) {
					return nothing{}, nil
				}).UndoFunc(name+".undo", slow(name)).After(after...)
			}
			a := add("a")
			left, right := add("l", a), add("r", a)
			saga.StepFunc(b, "z.fail", b.Input(), func(context.Context, saga.Call[order1]) (nothing, error) {
				return nothing{}, saga.Rejected(errors.New("no"))
			}).After(add("x", left), right)
		})
		begun := time.Now()
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), "in")
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.Equal(s, 3*time.Second, time.Since(begun)) // x and r, then l, then a
		require.EqualValues(s, 2, most.Load())
		close(order)
		var got []string
		for name := range order {
			got = append(got, name)
		}
		require.ElementsMatch(s, []string{"x", "r"}, got[:2])
		require.Equal(s, []string{"l", "a"}, got[2:])
	})
}

type order1 = string

func TestMaxParallel(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var running, most atomic.Int32
		d := saga.MustDefine("wide", 1, func(b *saga.Builder[order1, nothing]) {
			b.MaxParallel(2)
			for _, name := range []string{"a.do", "b.do", "c.do", "d.do", "e.do"} {
				saga.StepFunc(b, name, b.Input(), func(context.Context, saga.Call[order1]) (nothing, error) {
					most.Store(max(most.Load(), running.Add(1)))
					time.Sleep(time.Second)
					running.Add(-1)
					return nothing{}, nil
				}).ReadOnly()
			}
		})
		begun := time.Now()
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), "in")
		require.NoError(s, err)
		require.Equal(s, 3*time.Second, time.Since(begun))
		require.EqualValues(s, 2, most.Load())
	})
}

// A function gets the child key of its name, and so do its own calls.
func TestStepFunc_keys(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		k := key(s.T, "k")
		forward, err := childkey.Derive(parentOf(s.T, "t", "bank", "k"), "bank", "transfer")
		require.NoError(s, err)
		own, err := childkey.Derive(parentOf(s.T, "t", "bank", "k"), "bank", "recall")
		require.NoError(s, err)
		tries := 0
		d := saga.MustDefine("bank", 1, func(b *saga.Builder[order1, nothing]) {
			transfer := saga.StepFunc(b, "bank.transfer", b.Input(), func(ctx context.Context, call saga.Call[order1]) (string, error) {
				parent, _ := childkey.FromContext(ctx)
				require.Equal(s, forward, call.Key)
				require.Equal(s, forward, parent)
				require.Equal(s, tries > 0, call.Resumed)
				info, _ := saga.FromContext(ctx)
				require.Equal(s, journal.CallInfo{ID: journal.IDOf("t", "bank", k), Scope: "t", Name: "bank", Version: 1, Step: "bank.transfer"}, info)
				if tries++; tries < 3 {
					return "", errors.New("nobody knows")
				}
				return "ref-" + call.Input, nil
			}).UndoFunc("bank.recall", func(_ context.Context, u saga.UndoCall[order1, string]) error {
				require.Equal(s, own, u.Key)
				require.Equal(s, forward, u.Forward)
				require.Equal(s, "in", u.Input)
				require.Equal(s, "ref-in", *u.Output)
				return nil
			})
			saga.StepFunc(b, "bank.book", transfer.Output(), func(context.Context, saga.Call[string]) (nothing, error) {
				return nothing{}, saga.Rejected(errors.New("closed"))
			})
		})
		_, err = d.Run(s.Context(), s.open(d), k, "in", saga.Scope("t"))
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.ErrorContains(s, err, "closed")
		require.Equal(s, 3, tries)
	})
	require.NoError(t, saga.Rejected(nil))
}

// A panic is a try of unknown outcome, harms no other saga, and is told of.
func TestPanics(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		bad := saga.MustDefine("bad", 1, func(b *saga.Builder[order1, nothing]) {
			b.Timeout(time.Minute)
			b.UndoBudget(undoBudget)
			saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order1]) (nothing, error) { panic("boom") }).
				UndoFunc("a.undo", func(_ context.Context, u saga.UndoCall[order1, nothing]) error {
					require.Nil(s, u.Output)
					return nil
				})
		})
		goexit := saga.MustDefine("mapped", 1, func(b *saga.Builder[order1, nothing]) {
			done := saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order1]) (nothing, error) { return nothing{}, nil }).
				UndoFunc("a.undo", func(context.Context, saga.UndoCall[order1, nothing]) error { return nil })
			in := saga.Map(done.Output(), func(nothing) order1 { panic("in a map") })
			saga.StepFunc(b, "b.do", in, func(context.Context, saga.Call[order1]) (nothing, error) { return nothing{}, nil })
		})
		e := s.open(bad, goexit, checkout)
		_, err := bad.Start(s.Context(), e, key(s.T, "bad"), "in")
		require.NoError(s, err)
		_, err = goexit.Run(s.Context(), e, key(s.T, "mapped"), "in")
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.ErrorContains(s, err, "in a map")
		_, err = checkout.Run(s.Context(), e, key(s.T, "good"), basket)
		require.NoError(s, err)
		// The outcome of a.do stays unknown. After its last attempt it is undone even so.
		begun := time.Now()
		_, err = bad.Run(s.Context(), e, key(s.T, "bad"), "in")
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.InDelta(s, 4*time.Minute, time.Since(begun), float64(time.Minute))
		require.Positive(s, s.events.count(saga.EventPanic))
	})
}
