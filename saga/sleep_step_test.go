package saga_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
)

// trial is a saga that sleeps between two steps which can be undone. It notes when these run.
type trial struct {
	opened, closed, invoiced chan time.Time
}

func newTrial() *trial {
	return &trial{make(chan time.Time, 10), make(chan time.Time, 10), make(chan time.Time, 10)}
}

// note returns a function of a step that notes when it runs.
func note[In any](when chan time.Time) func(context.Context, saga.Call[In]) (nothing, error) {
	return func(context.Context, saga.Call[In]) (nothing, error) {
		when <- time.Now()
		return nothing{}, nil
	}
}

func (tr *trial) open(b *saga.Builder[time.Duration, nothing]) *saga.StepRef[time.Duration, nothing] {
	return saga.StepFunc(b, "account.open", b.Input(), note[time.Duration](tr.opened)).
		UndoFunc("account.close", func(context.Context, saga.UndoCall[time.Duration, nothing]) error {
			tr.closed <- time.Now()
			return nil
		})
}

func (tr *trial) invoice(b *saga.Builder[time.Duration, nothing]) *saga.StepRef[time.Duration, nothing] {
	return saga.StepFunc(b, "account.invoice", b.Input(), note[time.Duration](tr.invoiced))
}

// definition sleeps for its input.
func (tr *trial) definition(options ...func(*saga.Builder[time.Duration, nothing])) *saga.Definition[time.Duration, nothing] {
	return saga.MustDefine("trial", 1, func(b *saga.Builder[time.Duration, nothing]) {
		for _, option := range options {
			option(b)
		}
		tr.invoice(b).After(saga.Sleep(b, "trial.ends", b.Input()).After(tr.open(b)))
	})
}

// slow is for sagas of months: an engine in a bubble beats and polls all the time.
func slow(definitions ...saga.AnyDefinition) saga.Config {
	return saga.Config{Definitions: definitions, Lease: time.Hour, Poll: 10 * time.Minute}
}

// A saga that sleeps for months has no owner, and takes two writes for the sleep. It outlives its process, an outage, the
// sweeper and deploys, and ends within a Poll.
func TestSleep_months(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		tr := newTrial()
		d := tr.definition()
		j := tap(s.journal)
		e := s.openWith(j, slow(d))
		_, err := d.Start(s.Context(), e, key(s.T, "k"), 90*day)
		require.NoError(s, err)
		r := s.asleep("k")
		begun := <-tr.opened
		require.Equal(s, 1, j.count("Append"))
		require.Equal(s, begun.Add(90*day), r.WakeAt.Local())
		require.Equal(s, journal.Entry{
			Step: "trial.ends", Outcome: retry.NotSent, Pending: true, RetryAt: r.WakeAt, At: entryOf(r, "trial.ends").At,
		}, entryOf(r, "trial.ends"))
		go e.RunSweeper(s.Context())
		time.Sleep(20 * day)
		require.NoError(s, e.Close(s.Context()))
		time.Sleep(30 * day) // nobody is there
		next := saga.MustDefine("trial", 2, func(b *saga.Builder[time.Duration, nothing]) { tr.invoice(b) })
		s.openWith(j, slow(next, tr.definition()))
		time.Sleep(40*day - time.Hour)
		require.Equal(s, r.Revision, s.read("k").Revision, "nobody wrote meanwhile")
		done := s.until("k", journal.Completed)
		require.WithinDuration(s, begun.Add(90*day), <-tr.invoiced, 10*time.Minute)
		require.Equal(s, 3, j.count("Append"), "the end of the sleep is written before the next call")
		require.Equal(s, journal.Entry{
			Step: "trial.ends", Outcome: retry.Completed, Result: []byte("{}"), At: entryOf(done, "trial.ends").At,
		}, entryOf(done, "trial.ends"))
		require.Empty(s, tr.opened, "it ran once")
	})
}

// The end of a sleep is the same for each owner, however often one dies: it counts from the end of the steps before, or
// from the first claim.
func TestSleep_ownersAgree(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{10 * time.Second, time.Minute} { // in memory, and asleep
		inBubble(t, func(s *stage) {
			tr := newTrial()
			d := saga.MustDefine("trial", 1, func(b *saga.Builder[time.Duration, nothing]) {
				tr.invoice(b).After(saga.Sleep(b, "trial.ends", b.Input()))
			})
			begun := time.Now()
			first := dead(s.journal, func(method string, n int) bool { return method == "Append" && n == 1 })
			_, err := d.Start(s.Context(), s.openOn(first, d), key(s.T, "k"), length)
			require.NoError(s, err)
			time.Sleep(time.Second)
			second := dead(s.journal, func(method string, n int) bool { return method == "Append" && n == 1 })
			s.openOn(second, d)
			time.Sleep(20 * time.Second)
			s.open(d)
			s.until("k", journal.Completed)
			require.GreaterOrEqual(s, (<-tr.invoiced).Sub(begun), length)
			require.Less(s, s.read("k").FinishedAt.Sub(begun), length+6*saga.DefaultLease)
			if length == time.Minute {
				require.WithinDuration(s, begun.Add(length), s.read("k").FinishedAt, time.Second)
			}
			require.Empty(s, tr.invoiced)
		})
	}
}

// Sleeps run side by side, also beside a call. That call keeps the saga in memory until it has ended.
func TestSleep_parallel(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var ends [3]chan time.Time
		release := make(chan struct{})
		d := saga.MustDefine("parallel", 1, func(b *saga.Builder[time.Duration, nothing]) {
			saga.StepFunc(b, "a.long", b.Input(), func(context.Context, saga.Call[time.Duration]) (nothing, error) {
				<-release
				return nothing{}, nil
			}).ReadOnly().AttemptTimeout(time.Hour)
			for i, name := range []string{"one", "two", "three"} {
				ends[i] = make(chan time.Time, 10)
				nap := saga.Sleep(b, "nap."+name, saga.Const(b, time.Duration(i+1)*10*time.Minute))
				saga.StepFunc(b, "a."+name, b.Input(), note[time.Duration](ends[i])).ReadOnly().After(nap)
			}
		})
		begun := time.Now()
		_, err := d.Start(s.Context(), s.open(d), key(s.T, "k"), 0)
		require.NoError(s, err)
		require.Equal(s, 10*time.Minute, (<-ends[0]).Sub(begun))
		require.False(s, s.read("k").Engine.IsZero(), "a call of it runs")
		close(release)
		r := s.asleep("k")
		require.Equal(s, begun.Add(20*time.Minute), r.WakeAt.Local())
		require.WithinDuration(s, begun.Add(20*time.Minute), <-ends[1], time.Second)
		require.WithinDuration(s, begun.Add(30*time.Minute), <-ends[2], time.Second)
		require.Equal(s, journal.Completed, s.until("k", journal.Completed).Status)
	})
}

// A sleep of 0, or until a time that is over, ends at once. One that cannot be is a refusal, before the first call if
// it is known by then.
func TestSleep_bounds(t *testing.T) {
	t.Parallel()
	type input struct {
		Length time.Duration
		Until  time.Time
	}
	inBubble(t, func(s *stage) {
		calls := make(chan time.Time, 100)
		d := saga.MustDefine("bounds", 1, func(b *saga.Builder[input, nothing]) {
			call := saga.StepFunc(b, "a.do", b.Input(), note[input](calls)).
				UndoFunc("a.undo", func(context.Context, saga.UndoCall[input, nothing]) error { return nil })
			nap := saga.Sleep(b, "a.nap", saga.Map(b.Input(), func(in input) time.Duration {
				if in.Length == time.Second {
					panic("a bad second")
				}
				return in.Length
			})).After(call)
			saga.SleepUntil(b, "a.date", saga.Map(b.Input(), func(in input) time.Time { return in.Until })).After(nap)
		})
		e := s.open(d)
		soon := time.Now().Add(-time.Minute)
		for i, tt := range []struct {
			in   input
			step string // that is refused; "": none
			text string
		}{
			{input{0, soon}, "", ""},
			{input{time.Minute, soon}, "", ""},
			{input{-1, soon}, "a.nap", "-1ns is negative"},
			{input{saga.MaxDuration + 1, soon}, "a.nap", "more than MaxDuration"},
			{input{time.Second, soon}, "a.nap", "a bad second"},
			{input{0, time.Time{}}, "a.date", "the time is zero"},
			{input{0, soon.AddDate(101, 0, 0)}, "a.date", "more than MaxDuration"},
			{input{0, soon.AddDate(1000, 0, 0)}, "a.date", "more than MaxDuration"},
		} {
			begun := time.Now()
			_, err := d.Run(s.Context(), e, key(s.T, "k-"+string(rune('a'+i))), tt.in)
			if tt.step == "" {
				require.NoError(s, err)
				require.WithinDuration(s, begun.Add(tt.in.Length), time.Now(), 6*time.Second)
				<-calls
				continue
			}
			var failed *saga.Error
			require.ErrorAs(s, err, &failed)
			require.ErrorIs(s, err, saga.ErrCompensated)
			require.Equal(s, tt.step, failed.FailedStep)
			require.Equal(s, retry.Rejected, failed.Outcome)
			require.ErrorContains(s, err, tt.text)
			require.Equal(s, begun, time.Now())
			require.Empty(s, calls, "the refusal was known before")
		}
	})
}

// Define refuses a constant that cannot be, and a sleep beside the pivot.
func TestSleep_defined(t *testing.T) {
	t.Parallel()
	define := func(build func(b *saga.Builder[int, nothing])) error {
		_, err := saga.Define("naps", 1, build)
		return err
	}
	problem := func(text string, build func(b *saga.Builder[int, nothing])) {
		t.Helper()
		err := define(build)
		var plan *saga.PlanError
		require.ErrorAs(t, err, &plan)
		require.Len(t, plan.Problems, 1)
		require.ErrorContains(t, err, text)
	}
	problem("step a.nap: -1s is negative", func(b *saga.Builder[int, nothing]) { saga.Sleep(b, "a.nap", saga.Const(b, -time.Second)) })
	problem("step a.nap: the time is zero", func(b *saga.Builder[int, nothing]) { saga.SleepUntil(b, "a.nap", saga.Const(b, time.Time{})) })
	problem("more than MaxDuration", func(b *saga.Builder[int, nothing]) { saga.Sleep(b, "a.nap", saga.Const(b, saga.MaxDuration+1)) })
	problem("name must be service.operation", func(b *saga.Builder[int, nothing]) { saga.Sleep(b, "nap", saga.Const(b, time.Second)) })
	problem("the input of step a.nap", func(b *saga.Builder[int, nothing]) { saga.Sleep(b, "a.nap", saga.Value[time.Duration]{}) })
	call := func(b *saga.Builder[int, nothing], name string) *saga.StepRef[int, nothing] {
		return saga.StepFunc(b, name, b.Input(), note[int](nil))
	}
	err := define(func(b *saga.Builder[int, nothing]) {
		call(b, "a.pivot").Pivot()
		saga.Sleep(b, "a.nap", saga.Const(b, time.Second))
	})
	require.ErrorIs(t, err, saga.ErrPivot)
	err = define(func(b *saga.Builder[int, nothing]) { // no step decides, and the saga could not go back
		call(b, "a.one")
		saga.Sleep(b, "a.nap", saga.Const(b, time.Second))
	})
	require.ErrorIs(t, err, saga.ErrMissingUndo)
	require.NoError(t, define(func(b *saga.Builder[int, nothing]) { // the only bare step is the pivot, a sleep follows
		nap := saga.Sleep(b, "a.nap", saga.Const(b, time.Second)).After(call(b, "a.one"))
		call(b, "a.two").Retriable().After(nap)
	}))
}

// Cancel ends a saga that sleeps at once, also with a tool without its definition. Builder.Timeout counts a sleep.
func TestSleep_goesBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		want error
	}{{"engine", saga.ErrCancelled}, {"tool", saga.ErrCancelled}, {"timeout", saga.ErrTimeout}} {
		inBubble(t, func(s *stage) {
			tr := newTrial()
			var options []func(*saga.Builder[time.Duration, nothing])
			if tt.name == "timeout" {
				options = append(options, func(b *saga.Builder[time.Duration, nothing]) { b.Timeout(time.Hour) })
			}
			d := tr.definition(options...)
			e := s.open(d)
			_, err := d.Start(s.Context(), e, key(s.T, "k"), 30*day)
			require.NoError(s, err)
			r := s.asleep("k")
			ends := time.Now()
			switch tt.name {
			case "engine":
				_, err = e.Cancel(s.Context(), r.ID, someone)
			case "tool":
				tool, failed := saga.NewOperator(s.journal)
				require.NoError(s, failed)
				_, err = tool.Cancel(s.Context(), r.ID, someone)
			default:
				ends = r.FirstClaimedAt.Add(time.Hour)
			}
			require.NoError(s, err)
			_, err = d.Run(s.Context(), e, key(s.T, "k"), 30*day)
			require.ErrorIs(s, err, tt.want)
			require.WithinDuration(s, ends, <-tr.closed, 2*time.Second)
			require.Empty(s, tr.invoiced)
			open := entryOf(s.read("k"), "trial.ends")
			require.False(s, open.Pending, "nothing of the sleep is left")
			require.Equal(s, retry.NotSent, open.Outcome)
		})
	}
}

// RetryNow does not end a sleep: it is refused for a saga that only sleeps. With a call that waits beside the sleep it
// ends the wait of the call. A tool of an older build deletes the time of the sleep, which is found anew.
func TestSleep_retryNow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var up atomic.Bool
		tries, ends := make(chan time.Time, 100), make(chan time.Time, 10)
		d := saga.MustDefine("retried", 1, func(b *saga.Builder[time.Duration, nothing]) {
			saga.StepFunc(b, "a.down", b.Input(), func(context.Context, saga.Call[time.Duration]) (nothing, error) {
				tries <- time.Now()
				if up.Load() {
					return nothing{}, nil
				}
				return nothing{}, saga.NotSent(errors.New("down"))
			}).ReadOnly().Retry(saga.RetryPolicy{Backoff: retry.Backoff{Base: 2 * time.Hour, Cap: 2 * time.Hour}})
			saga.StepFunc(b, "a.do", b.Input(), note[time.Duration](ends)).ReadOnly().After(saga.Sleep(b, "a.nap", b.Input()))
		})
		e := s.open(d)
		begun := time.Now()
		_, err := d.Start(s.Context(), e, key(s.T, "k"), 10*time.Hour)
		require.NoError(s, err)
		r := s.asleep("k")
		<-tries
		up.Store(true)
		_, err = e.RetryNow(s.Context(), r.ID, someone)
		require.NoError(s, err)
		require.WithinDuration(s, time.Now(), <-tries, 2*time.Second)
		r = s.asleep("k")
		require.Equal(s, begun.Add(10*time.Hour), entryOf(r, "a.nap").RetryAt.Local())
		_, err = e.RetryNow(s.Context(), r.ID, someone)
		require.ErrorIs(s, err, saga.ErrConflict)
		old := entryOf(r, "a.nap")
		old.RetryAt = time.Time{}
		_, won, err := s.journal.Change(s.Context(), journal.Change{
			ID: r.ID, Revision: r.Revision, Wake: true, Entries: []journal.Entry{old},
			By: journal.Audit{Actor: "ann", Reason: "an older tool", Verb: journal.VerbRetryNow},
		})
		require.NoError(s, err)
		require.True(s, won)
		time.Sleep(2 * time.Second)
		require.Equal(s, begun.Add(10*time.Hour), entryOf(s.asleep("k"), "a.nap").RetryAt.Local())
		require.WithinDuration(s, begun.Add(10*time.Hour), <-ends, time.Second)
	})
}

// Past the pivot a saga sleeps for longer than its UndoBudget, which begins anew afterwards. It cannot be cancelled then.
func TestSleep_pastThePivot(t *testing.T) {
	t.Parallel()
	for _, forwardOnly := range []bool{false, true} {
		inBubble(t, func(s *stage) {
			tr := newTrial()
			var up atomic.Bool
			d := saga.MustDefine("pivoted", 1, func(b *saga.Builder[time.Duration, nothing]) {
				first := tr.invoice(b)
				if forwardOnly {
					first.Retriable()
				}
				nap := saga.Sleep(b, "a.nap", b.Input()).After(first)
				saga.StepFunc(b, "a.mail", b.Input(), func(context.Context, saga.Call[time.Duration]) (nothing, error) {
					if !up.Load() {
						return nothing{}, errors.New("down")
					}
					return nothing{}, nil
				}).Retriable().After(nap)
			})
			e := s.openWith(s.journal, slow(d))
			_, err := d.Start(s.Context(), e, key(s.T, "k"), 60*day)
			require.NoError(s, err)
			r := s.asleep("k")
			_, err = e.Cancel(s.Context(), r.ID, someone)
			require.ErrorIs(s, err, saga.ErrConflict)
			time.Sleep(60*day + 23*time.Hour)
			up.Store(true)
			s.until("k", journal.Completed)
			require.Len(s, tr.invoiced, 1)
		})
	}
}

// A journal's clock that goes back makes no Sleep longer by that, and moves no SleepUntil.
func TestSleep_clockGoesBack(t *testing.T) {
	t.Parallel()
	const step, length = 5 * time.Hour, 10 * time.Hour
	for _, until := range []bool{false, true} {
		inBubble(t, func(s *stage) {
			var ahead atomic.Int64
			ahead.Store(int64(step))
			now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			j := memjournal.NewWith(memjournal.Config{Now: now})
			ends := make(chan time.Time, 10)
			begun := time.Now()
			d := saga.MustDefine("clocked", 1, func(b *saga.Builder[int, nothing]) {
				var nap *saga.SleepRef
				if until {
					nap = saga.SleepUntil(b, "a.nap", saga.Const(b, begun.Add(step+length)))
				} else {
					nap = saga.Sleep(b, "a.nap", saga.Const(b, length))
				}
				saga.StepFunc(b, "a.do", b.Input(), note[int](ends)).ReadOnly().After(nap)
			})
			_, err := d.Start(s.Context(), s.openOn(j, d), key(s.T, "k"), 1)
			require.NoError(s, err)
			time.Sleep(time.Hour)
			ahead.Store(0)
			want := length + time.Hour // what was slept before the step cannot be known
			if until {
				want = length + step
			}
			took := (<-ends).Sub(begun)
			require.InDelta(s, want, took, float64(time.Hour)+float64(time.Minute))
		})
	}
}

// Two sleeps one after the other, with nothing between, are two writes, and the zero ones none of their own.
func TestSleep_inARow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		ends := make(chan time.Time, 10)
		d := saga.MustDefine("row", 1, func(b *saga.Builder[int, nothing]) {
			last := saga.Sleep(b, "a.last", saga.Const(b, time.Duration(0)))
			first := saga.Sleep(b, "a.first", saga.Const(b, time.Duration(0)))
			saga.StepFunc(b, "a.do", b.Input(), note[int](ends)).ReadOnly().After(last)
			last.After(saga.Sleep(b, "a.second", saga.Const(b, time.Minute)).After(first))
		})
		j := tap(s.journal)
		e := s.openOn(j, d)
		begun := time.Now()
		_, err := d.Run(s.Context(), e, key(s.T, "k"), 1)
		require.NoError(s, err)
		require.WithinDuration(s, begun.Add(time.Minute), <-ends, time.Second)
		require.Equal(s, 3, j.count("Append"))
	})
}

// Sleeps and skipped steps let each other begin within one decision, and a sleep whose time is made from the output of a
// skipped step is skipped too.
func TestSleep_besideSkips(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		ends := make(chan time.Time, 10)
		d := saga.MustDefine("skips", 1, func(b *saga.Builder[int, nothing]) {
			zero, never := saga.Const(b, time.Duration(0)), saga.Map(b.Input(), func(int) bool { return false })
			skipped := func(name string) *saga.StepRef[int, time.Duration] {
				return saga.StepFunc(b, name, b.Input(), func(context.Context, saga.Call[int]) (time.Duration, error) {
					s.Error("a skipped step ran")
					return 0, nil
				}).ReadOnly().When(never)
			}
			last := saga.Sleep(b, "a.last", zero)
			second := skipped("a.second").After(saga.Sleep(b, "a.first", zero).After(skipped("a.start")))
			last.After(second, saga.Sleep(b, "a.skipped", second.Output()), saga.Sleep(b, "a.or", second.Or(saga.Const(b, time.Minute))))
			saga.StepFunc(b, "a.do", b.Input(), note[int](ends)).ReadOnly().After(last)
		})
		begun := time.Now()
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), 1)
		require.NoError(s, err)
		require.WithinDuration(s, begun.Add(time.Minute), <-ends, time.Second)
		require.True(s, entryOf(s.read("k"), "a.skipped").Skipped)
		require.Equal(s, retry.Completed, entryOf(s.read("k"), "a.or").Outcome)
	})
}

// What a saga leaves behind are effects: a step that only reads has none, and a sleep has none.
func TestError_pendingAreEffects(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		when := make(chan time.Time, 10)
		d := saga.MustDefine("audit", 1, func(b *saga.Builder[time.Duration, nothing]) {
			read := saga.StepFunc(b, "account.read", b.Input(), note[time.Duration](when)).ReadOnly()
			noted := saga.StepFunc(b, "account.note", b.Input(), note[time.Duration](when)).Irreversible().After(read)
			slept := saga.Sleep(b, "trial.ends", b.Input()).After(noted)
			saga.StepFunc(b, "account.invoice", b.Input(), func(context.Context, saga.Call[time.Duration]) (nothing, error) {
				return nothing{}, saga.Rejected(errors.New("no address"))
			}).Pivot().After(slept)
		})
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), time.Minute)
		var failed *saga.Error
		require.ErrorAs(s, err, &failed)
		require.Equal(s, "account.invoice", failed.FailedStep)
		require.Equal(s, []string{"account.note"}, failed.Pending)
	})
}
