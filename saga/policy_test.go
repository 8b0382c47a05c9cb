package saga_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// declining is a saga of one function that says "declined" each time, and what it did.
type declining struct {
	tries, undone atomic.Int32
	last          time.Time // when the last try began
}

func (c *declining) step(b *saga.Builder[order, nothing]) *saga.StepRef[order, nothing] {
	return saga.StepFunc(b, "bank.pay", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
		c.tries.Add(1)
		c.last = time.Now()
		return nothing{}, errors.New("declined")
	})
}

func (c *declining) undo(context.Context, saga.UndoCall[order, nothing]) error {
	c.undone.Add(1)
	return nil
}

// By default a call that may fail is given up after minutes, whatever its step is.
func TestRetryPolicy_defaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mark   func(s *saga.StepRef[order, nothing], c *declining)
		want   error
		undone int
	}{
		{"with an undo", func(s *saga.StepRef[order, nothing], c *declining) { s.UndoFunc("bank.recall", c.undo) }, saga.ErrCompensated, 1},
		{"the pivot", func(*saga.StepRef[order, nothing], *declining) {}, saga.ErrStuck, 0},
		{"read only", func(s *saga.StepRef[order, nothing], _ *declining) { s.ReadOnly() }, saga.ErrCompensated, 0},
		{"irreversible", func(s *saga.StepRef[order, nothing], _ *declining) { s.Irreversible() }, saga.ErrCompensated, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				var c declining
				d := saga.MustDefine("plain", 1, func(b *saga.Builder[order, nothing]) { tt.mark(c.step(b), &c) })
				begun := time.Now()
				_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
				require.ErrorIs(s, err, tt.want)
				require.ErrorIs(s, err, retry.ErrUnknown)
				require.ErrorContains(s, err, "declined")
				require.EqualValues(s, saga.DefaultAttempts, c.tries.Load())
				require.EqualValues(s, tt.undone, c.undone.Load())
				waited := 511 * time.Second / 2 // 1, 2, 4 … 256 s, and half of that by the stage's Rand
				require.Equal(s, waited, c.last.Sub(begun))
				require.Less(s, time.Since(begun), waited+time.Second, "what follows the last try")
				tries := s.events.triesOf("bank.pay", false)
				require.Zero(s, tries[len(tries)-1].Wait, "nothing is tried after the last")
			})
		})
	}
}

// The policy of a step is kept: the number of tries, and the waits between them, of the
// undo as well.
func TestRetryPolicy(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var tries, undos []time.Duration
		begun := time.Now()
		d := saga.MustDefine("own", 1, func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
				tries = append(tries, time.Since(begun))
				return nothing{}, errors.New("who knows")
			}).UndoFunc("a.undo", func(context.Context, saga.UndoCall[order, nothing]) error {
				if undos = append(undos, time.Since(begun)); len(undos) < 3 {
					return errors.New("not yet")
				}
				return nil
			}).Retry(saga.RetryPolicy{Attempts: 4, Backoff: retry.Backoff{Base: 10 * time.Second, Cap: 20 * time.Second, Jitter: 1e-12}})
		})
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		round(tries)
		round(undos)
		require.Equal(s, []time.Duration{0, 10 * time.Second, 30 * time.Second, 50 * time.Second}, tries)
		require.Equal(s, []time.Duration{50 * time.Second, 60 * time.Second, 80 * time.Second}, undos)
	})
}

func round(times []time.Duration) {
	for i := range times {
		times[i] = times[i].Round(time.Millisecond)
	}
}

// One attempt is one attempt: what may have had an effect is undone at once.
func TestRetryPolicy_oneAttempt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("once", 1, func(b *saga.Builder[order, nothing]) {
			saga.Step(b, pay, b.Input()).Undo(refund).Retry(saga.RetryPolicy{Attempts: 1})
		})
		s.services.Script("payment.charge", sagatest.Always(sagatest.LoseAnswer()))
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.Len(s, s.events.triesOf("payment.charge", false), 1)
		s.wantEffects("payment.charge", 1, 1)
	})
}

// Attempts count on across owners, and across the failure of the saga.
func TestRetryPolicy_countsAcrossOwners(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var c declining
		d := saga.MustDefine("plain", 1, func(b *saga.Builder[order, nothing]) {
			c.step(b).UndoFunc("bank.recall", c.undo)
			step(b, "a.look").ReadOnly()
		})
		first := s.open(d)
		_, err := d.Start(s.Context(), first, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(20 * time.Second)
		require.Greater(s, int(c.tries.Load()), 3)
		require.NoError(s, first.Close(s.Context()))
		second := s.open(d)
		time.Sleep(time.Minute)
		_, err = second.Cancel(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		_, err = d.Run(s.Context(), second, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCancelled)
		require.EqualValues(s, saga.DefaultAttempts, c.tries.Load())
		require.EqualValues(s, 1, c.undone.Load())
	})
}

// A permanent error ends the attempts. The outcome decides whether an effect is left.
func TestRetryPolicy_permanent(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("broken")
	broken := func(err error) bool {
		var failed *retry.Error
		return errors.Is(err, errBroken) || errors.As(err, &failed) && failed.Status == http.StatusServiceUnavailable
	}
	for _, tt := range []struct {
		name      string
		permanent func(error) bool
		tries     int
	}{
		{"it is", broken, 1},
		{"it is not", func(error) bool { return false }, 3},
		{"nobody says so", nil, 3},
		{"the policy panics", func(error) bool { panic("boom") }, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				policy := saga.RetryPolicy{Attempts: 3, Permanent: tt.permanent}
				tries, undone := 0, 0
				d := saga.MustDefine("broken", 1, func(b *saga.Builder[order, nothing]) {
					saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
						tries++
						return nothing{}, errBroken
					}).UndoFunc("a.undo", func(context.Context, saga.UndoCall[order, nothing]) error {
						undone++
						return nil
					}).Retry(policy)
				})
				ofCall := saga.MustDefine("of-call", 1, func(b *saga.Builder[order, nothing]) {
					saga.Step(b, pay, b.Input()).Undo(refund).Retry(policy)
				})
				s.services.Script("payment.charge", sagatest.Always(sagatest.Unavailable()))
				e := s.open(d, ofCall)
				_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
				require.ErrorIs(s, err, saga.ErrCompensated)
				require.Equal(s, tt.tries, tries)
				require.Equal(s, 1, undone, "what may have had an effect")
				_, err = ofCall.Run(s.Context(), e, key(s.T, "k"), basket)
				require.ErrorIs(s, err, saga.ErrCompensated)
				require.Len(s, s.events.triesOf("payment.charge", false), tt.tries)
				require.Equal(s, tt.name == "the policy panics", s.events.count(saga.EventPanic) > 0)
			})
		})
	}
}

// A step's Timeout means what it says: the try is cut off, and the step is undone at once.
func TestTimeout_ofAStep(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		inBubble(t, func(s *stage) {
			undone := false
			d := saga.MustDefine("plain", 1, func(b *saga.Builder[order, nothing]) {
				first := step(b, "a.do").UndoFunc("a.undo", undo)
				saga.StepFunc(b, "bank.pay", b.Input(), func(ctx context.Context, _ saga.Call[order]) (nothing, error) {
					if hangs {
						<-ctx.Done()
					}
					return nothing{}, errors.New("declined")
				}).UndoFunc("bank.recall", func(context.Context, saga.UndoCall[order, nothing]) error {
					undone = true
					return nil
				}).After(first).Timeout(time.Minute).AttemptTimeout(45 * time.Second).Retry(saga.RetryPolicy{Attempts: 1000})
			})
			begun := time.Now()
			_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrCompensated)
			require.ErrorIs(s, err, saga.ErrTimeout)
			require.ErrorIs(s, err, retry.ErrUnknown)
			require.Equal(s, time.Minute, time.Since(begun), "hangs %v", hangs)
			require.True(s, undone)
		})
	}
}

// Cancelled in the middle, a step has its Timeout from then on to be found out about.
func TestTimeout_ofAStepThatIsResolved(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var c declining
		d := saga.MustDefine("plain", 1, func(b *saga.Builder[order, nothing]) {
			c.step(b).UndoFunc("bank.recall", c.undo).Timeout(time.Minute)
			step(b, "a.look").ReadOnly()
		})
		e := s.open(d)
		begun := time.Now()
		_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(10 * time.Second)
		_, err = e.Cancel(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.InDelta(s, 10*time.Second+time.Minute, time.Since(begun), float64(time.Second))
		require.EqualValues(s, 1, c.undone.Load())
	})
}

// A retriable step is tried for the undo budget, wherever it stands, or as often as its
// policy says.
func TestRetryPolicy_retriable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		define func(b *saga.Builder[order, nothing], c *declining)
		want   error
		after  time.Duration
	}{
		{"alone", func(b *saga.Builder[order, nothing], c *declining) { c.step(b).Retriable() }, saga.ErrStuck, undoBudget},
		{"past the pivot", func(b *saga.Builder[order, nothing], c *declining) {
			c.step(b).Retriable().After(step(b, "a.do").Pivot())
		}, saga.ErrStuck, undoBudget},
		{"before what can fail", func(b *saga.Builder[order, nothing], c *declining) {
			step(b, "b.do").After(c.step(b).Retriable().UndoFunc("bank.recall", c.undo)).UndoFunc("b.undo", undo)
		}, saga.ErrCompensated, undoBudget},
		{"with attempts", func(b *saga.Builder[order, nothing], c *declining) {
			c.step(b).Retriable().Retry(saga.RetryPolicy{Attempts: 3})
		}, saga.ErrStuck, 1500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				var c declining
				d := saga.MustDefine("steady", 1, func(b *saga.Builder[order, nothing]) {
					b.UndoBudget(undoBudget)
					tt.define(b, &c)
				})
				begun := time.Now()
				_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
				require.ErrorIs(s, err, tt.want)
				require.Equal(s, tt.after, time.Since(begun))
			})
		})
	}
}

// A permanent error ends the attempts also if an earlier attempt may have had an effect. That is undone.
func TestRetryPolicy_permanentAfterADoubt(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(error) error{
		"not sent": saga.NotSent, "unknown": func(err error) error { return err }, "refused": saga.Rejected,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				closed := errors.New("closed for good")
				runs, undone := 0, 0
				d := saga.MustDefine("permanent", 1, func(b *saga.Builder[order, nothing]) {
					saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
						if runs++; runs == 1 {
							return nothing{}, errors.New("the answer was lost")
						}
						return nothing{}, last(closed)
					}).UndoFunc("a.undo", func(context.Context, saga.UndoCall[order, nothing]) error {
						undone++
						return nil
					}).Retry(saga.RetryPolicy{Permanent: func(err error) bool { return errors.Is(err, closed) }})
				})
				_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
				require.ErrorIs(s, err, saga.ErrCompensated)
				require.Equal(s, 2, runs)
				require.Equal(s, name != "refused", undone == 1)
			})
		})
	}
}
