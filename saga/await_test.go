package saga_test

import (
	"context"
	"encoding/json"
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

// decision is what a manager decides.
type decision struct{ By string }

var approved = saga.NewSignal[decision]("order.approved")

// approvalSaga is a saga that waits between a step that can be undone and one that notes who approved.
type approvalSaga struct {
	held, released chan time.Time
	shipped        chan string
}

func newApproval() *approvalSaga {
	return &approvalSaga{make(chan time.Time, 10), make(chan time.Time, 10), make(chan string, 10)}
}

func (a *approvalSaga) hold(b *saga.Builder[int, string]) *saga.StepRef[int, nothing] {
	return saga.StepFunc(b, "stock.hold", b.Input(), note[int](a.held)).
		UndoFunc("stock.release", func(context.Context, saga.UndoCall[int, nothing]) error {
			a.released <- time.Now()
			return nil
		})
}

func (a *approvalSaga) ship(b *saga.Builder[int, string], by saga.Value[decision]) *saga.StepRef[decision, string] {
	return saga.StepFunc(b, "stock.ship", by, func(_ context.Context, call saga.Call[decision]) (string, error) {
		a.shipped <- call.Input.By
		return call.Input.By, nil
	})
}

func (a *approvalSaga) definition(options ...func(*saga.AwaitRef[decision])) *saga.Definition[int, string] {
	return saga.MustDefine("approval", 1, func(b *saga.Builder[int, string]) {
		wait := saga.Await(b, approved).After(a.hold(b))
		for _, option := range options {
			option(wait)
		}
		by := wait.Output()
		if len(options) > 1 {
			by = wait.Or(saga.Const(b, decision{"nobody"}))
		}
		saga.Return(b, a.ship(b, by).Output())
	})
}

func withTimeout(d time.Duration) func(*saga.AwaitRef[decision]) {
	return func(w *saga.AwaitRef[decision]) { w.Timeout(d) }
}

func optional(w *saga.AwaitRef[decision]) { w.Optional() }

func approvalID(s *stage, text string) journal.ID {
	return journal.IDOf("", "approval", key(s.T, text))
}

// A saga that waits for months has no owner, and takes no write for that. The value reaches it at once, outlives the process that
// sent it, and is an ordinary output then.
func TestAwait_months(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		a := newApproval()
		d := a.definition()
		j := tap(s.journal)
		e := s.openWith(j, slow(d))
		_, err := d.Start(s.Context(), e, key(s.T, "k"), 1)
		require.NoError(s, err)
		r := s.asleep("k")
		require.Equal(s, 1, j.count("Append"))
		require.Equal(s, 1, j.count("Signals"), "it read when the wait began")
		open := entryOf(r, "order.approved")
		require.True(s, open.IsAsleep())
		waits := []saga.Awaited{{Signal: "order.approved", Since: entryOf(r, "stock.hold").At}}
		require.Equal(s, waits, saga.AwaitedBy(r, d.Steps()))
		time.Sleep(90 * day)
		require.Equal(s, r.Revision, s.read("k").Revision, "nobody wrote meanwhile")
		require.Equal(s, 1, j.count("Signals"), "and nobody read the signals of a saga that sleeps")

		sent := time.Now()
		require.NoError(s, approved.Send(s.Context(), e, r.ID, decision{"ann"}))
		require.Equal(s, "ann", <-a.shipped)
		require.Equal(s, sent, time.Now(), "the engine that waits has it at once")
		done := s.until("k", journal.Completed)
		require.Equal(s, journal.Entry{
			Step: "order.approved", Outcome: retry.Completed, Result: []byte(`{"By":"ann"}`), At: entryOf(done, "order.approved").At,
		}, entryOf(done, "order.approved"))
		require.Equal(s, 3, j.count("Append"), "the value is written before the next call")
		require.Empty(s, a.released)
		for range 2 {
			require.NoError(s, approved.Send(s.Context(), e, r.ID, decision{"ann"}), "the same value, after the end")
			require.ErrorIs(s, approved.Send(s.Context(), e, r.ID, decision{"bob"}), saga.ErrSignalReused)
		}
	})
}

// The value can be sent before the saga starts, before the wait begins, and while the saga waits, in any process.
func TestAwait_sentAtAnyTime(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before the start", "before the wait", "in the wait", "by another process", "while nobody is there"} {
		t.Run(when, func(t *testing.T) {
			inBubble(t, func(s *stage) {
				a := newApproval()
				d := a.definition(withTimeout(30 * day))
				e := s.openWith(s.journal, slow(d))
				desk, err := saga.NewOperator(s.journal)
				require.NoError(s, err)
				send := func(to saga.Signaller) {
					require.NoError(s, approved.Send(s.Context(), to, approvalID(s, "k"), decision{"ann"}))
				}
				if when == "before the start" {
					send(desk)
					time.Sleep(day)
				}
				_, err = d.Start(s.Context(), e, key(s.T, "k"), 1)
				require.NoError(s, err)
				if when == "before the wait" {
					send(e)
				}
				<-a.held
				switch when {
				case "in the wait":
					time.Sleep(day)
					send(e)
				case "by another process":
					time.Sleep(day)
					send(desk)
				case "while nobody is there":
					s.asleep("k")
					require.NoError(s, e.Close(s.Context()))
					time.Sleep(day)
					send(desk)
					time.Sleep(50 * day) // the time of the wait is over, and the value was first
					s.openWith(s.journal, slow(d))
				}
				sent := time.Now()
				require.Equal(s, "ann", <-a.shipped)
				require.LessOrEqual(s, time.Since(sent), 10*time.Minute, "a Poll")
				s.until("k", journal.Completed)
				require.Empty(s, a.shipped)
			})
		})
	}
}

// Without a value in time the saga is undone, or goes on without it. Then it is too late for a value.
func TestAwait_timeout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		a := newApproval()
		d := a.definition(withTimeout(2 * day))
		j := tap(s.journal)
		e := s.openWith(j, slow(d))
		begun := time.Now()
		_, err := d.Run(s.Context(), e, key(s.T, "k"), 1)
		require.WithinDuration(s, begun.Add(2*day), <-a.released, 10*time.Minute)
		require.Equal(s, 1, j.count("EndWait"))
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.ErrorIs(s, err, saga.ErrTimeout)
		var failed *saga.Error
		require.ErrorAs(s, err, &failed)
		require.Equal(s, "order.approved", failed.FailedStep)
		require.ErrorContains(s, err, "nobody has sent it in time")
		require.ErrorIs(s, approved.Send(s.Context(), e, failed.ID, decision{"ann"}), saga.ErrTooLate)
		require.Empty(s, a.shipped)
	})
	inBubble(t, func(s *stage) {
		a := newApproval()
		d := a.definition(withTimeout(2*day), optional)
		e := s.openWith(s.journal, slow(d))
		out, err := d.Run(s.Context(), e, key(s.T, "k"), 1)
		require.NoError(s, err)
		require.Equal(s, "nobody", out)
		require.True(s, entryOf(s.read("k"), "order.approved").Skipped)
		require.ErrorIs(s, approved.Send(s.Context(), e, approvalID(s, "k"), decision{"ann"}), saga.ErrTooLate)
		require.NoError(s, approved.Send(s.Context(), e, approvalID(s, "k2"), decision{"ann"}))
		out, err = d.Run(s.Context(), e, key(s.T, "k2"), 1)
		require.NoError(s, err)
		require.Equal(s, "ann", out)
	})
}

// A wait beside a running call is in memory. A signal of this process reaches it at once, and one of another within a Poll.
func TestAwait_inMemory(t *testing.T) {
	t.Parallel()
	for _, here := range []bool{true, false} {
		inBubble(t, func(s *stage) {
			a, release := newApproval(), make(chan struct{})
			d := saga.MustDefine("approval", 1, func(b *saga.Builder[int, string]) {
				saga.StepFunc(b, "a.long", b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
					<-release
					return nothing{}, nil
				}).ReadOnly().AttemptTimeout(10 * time.Hour)
				wait := saga.Await(b, approved).Timeout(day)
				other := saga.Await(b, saga.NewSignal[int]("order.paid")).Timeout(day)
				saga.Return(b, a.ship(b, wait.Output()).After(other).Irreversible().Output())
			})
			j := tap(s.journal)
			e := s.openWith(j, saga.Config{Definitions: []saga.AnyDefinition{d}})
			_, err := d.Start(s.Context(), e, key(s.T, "k"), 1)
			require.NoError(s, err)
			var to saga.Signaller = e
			if !here {
				to, err = saga.NewOperator(s.journal)
				require.NoError(s, err)
			}
			time.Sleep(time.Hour)
			steps, err := saga.PlanSteps(d.Plan())
			require.NoError(s, err)
			r := s.read("k")
			require.Equal(s, []saga.Awaited{{Signal: "order.approved", Since: r.FirstClaimedAt}, {Signal: "order.paid", Since: r.FirstClaimedAt}}, saga.AwaitedBy(r, steps))
			require.Equal(s, r.FirstClaimedAt.Add(day), saga.AwaitedBy(r, d.Steps())[0].Until)
			require.NoError(s, saga.NewSignal[int]("order.paid").Send(s.Context(), to, approvalID(s, "k"), 7))
			time.Sleep(time.Hour)
			require.NoError(s, approved.Send(s.Context(), to, approvalID(s, "k"), decision{"ann"}))
			sent := time.Now()
			require.Equal(s, "ann", <-a.shipped)
			require.LessOrEqual(s, time.Since(sent), saga.DefaultPoll)
			require.True(s, !here || time.Since(sent) == 0)
			require.False(s, s.read("k").Engine.IsZero(), "a call of it runs")
			close(release)
			s.until("k", journal.Completed)
			n := j.count("Signals")
			time.Sleep(time.Hour)
			require.Equal(s, n, j.count("Signals"), "nobody waits in memory any more")
		})
	}
}

// However a signal and the write that gives the saga up fall together, the saga does not sleep on.
func TestAwait_noLostWake(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"before Signals", "after Signals", "before Append", "after Append"} {
		t.Run(at, func(t *testing.T) {
			inBubble(t, func(s *stage) {
				a := newApproval()
				d := a.definition()
				j := tap(s.journal)
				var once atomic.Bool
				send := func(point string) func(method string, n int) error {
					return func(method string, n int) error {
						if point+" "+method == at && n == 1 && once.CompareAndSwap(false, true) {
							desk, err := saga.NewOperator(s.journal)
							require.NoError(s, err)
							require.NoError(s, approved.Send(s.Context(), desk, approvalID(s, "k"), decision{"ann"}))
						}
						return nil
					}
				}
				j.before, j.after = send("before"), send("after")
				_, err := d.Start(s.Context(), s.openWith(j, slow(d)), key(s.T, "k"), 1)
				require.NoError(s, err)
				begun := time.Now()
				require.Equal(s, "ann", <-a.shipped)
				require.LessOrEqual(s, time.Since(begun), 10*time.Minute)
				require.True(s, once.Load())
			})
		})
	}
}

// A journal that does not answer about signals delays a wait, and makes the saga neither sleep on nor fail.
func TestAwait_journalAway(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Signals", "EndWait", "WakeSignalled"} {
		inBubble(t, func(s *stage) {
			a := newApproval()
			d := a.definition(withTimeout(time.Hour))
			j := tap(s.journal)
			var back atomic.Bool
			j.before = func(called string, _ int) error {
				if called == method && !back.Load() {
					return errors.New("away")
				}
				return nil
			}
			e := s.openWith(j, saga.Config{Definitions: []saga.AnyDefinition{d}})
			_, err := d.Start(s.Context(), e, key(s.T, "k"), 1)
			require.NoError(s, err)
			time.Sleep(30 * time.Minute)
			require.Equal(s, method == "Signals", !s.read("k").Engine.IsZero(), "it sleeps, but not before it has read")
			time.Sleep(time.Hour)
			require.Equal(s, method == "EndWait", s.read("k").Status == journal.Running)
			require.NotZero(s, s.events.count(saga.EventJournalError))
			back.Store(true)
			s.until("k", journal.Compensated)
		})
	}
}

// What cannot be sent or awaited is refused before any I/O, or as soon as it is known.
func TestAwait_refused(t *testing.T) {
	t.Parallel()
	problem := func(of error, text string, build func(b *saga.Builder[int, nothing])) {
		t.Helper()
		_, err := saga.Define("waits", 1, build)
		var plan *saga.PlanError
		require.ErrorAs(t, err, &plan)
		require.ErrorIs(t, err, of)
		require.ErrorContains(t, err, text)
	}
	type builder = *saga.Builder[int, nothing]
	problem(saga.ErrSignal, "not made by NewSignal", func(b builder) { saga.Await(b, saga.Signal[int]{}) })
	problem(saga.ErrSignal, "must be service.operation", func(b builder) { saga.Await(b, saga.NewSignal[int]("")) })
	problem(saga.ErrSignal, "must be service.operation", func(b builder) { saga.Await(b, saga.NewSignal[int]("approved")) })
	problem(saga.ErrSignal, "func()", func(b builder) { saga.Await(b, saga.NewSignal[func()]("a.b")) })
	problem(saga.ErrDuplicateStep, "order.approved is there twice", func(b builder) {
		saga.Await(b, approved)
		saga.Await(b, approved)
	})
	problem(saga.ErrPlan, "Timeout: -1s is not positive", func(b builder) { saga.Await(b, approved).Timeout(-time.Second) })
	problem(saga.ErrPlan, "more than MaxDuration", func(b builder) { saga.Await(b, approved).Timeout(saga.MaxDuration + 1) })
	problem(saga.ErrPlan, "Optional without a Timeout", func(b builder) { saga.Await(b, approved).Optional() })
	pivot := func(b builder) *saga.StepRef[int, nothing] {
		return saga.StepFunc(b, "a.pivot", b.Input(), note[int](nil)).Pivot()
	}
	problem(saga.ErrPivot, "fails after its Timeout", func(b builder) { saga.Await(b, approved).Timeout(time.Hour).After(pivot(b)) })
	problem(saga.ErrPivot, "beside the pivot", func(b builder) { saga.Await(b, approved); pivot(b) })
	problem(saga.ErrMissingUndo, "a.bare has no undo", func(b builder) {
		bare := saga.StepFunc(b, "a.bare", b.Input(), note[int](nil))
		saga.Await(b, approved).Timeout(time.Hour).After(bare)
	})
	problem(saga.ErrPlan, "the result needs", func(b builder) {
		saga.Return(b, saga.Map(saga.Await(b, approved).Timeout(time.Hour).Optional().Output(), func(decision) nothing { return nothing{} }))
	})
	for _, after := range []func(*saga.AwaitRef[decision]){func(*saga.AwaitRef[decision]) {}, func(w *saga.AwaitRef[decision]) { w.Timeout(time.Hour).Optional() }} {
		_, err := saga.Define("waits", 1, func(b builder) { after(saga.Await(b, approved).After(pivot(b))) })
		require.NoError(t, err)
	}

	inBubble(t, func(s *stage) {
		a := newApproval()
		d := a.definition()
		j := tap(s.journal)
		e := s.openWith(j, slow(d))
		id := approvalID(s, "k")
		require.ErrorIs(s, saga.Signal[int]{}.Send(s.Context(), e, id, 1), saga.ErrSignal)
		require.ErrorIs(s, saga.NewSignal[int]("x").Send(s.Context(), e, id, 1), saga.ErrSignal)
		require.ErrorIs(s, approved.Send(s.Context(), nil, id, decision{}), saga.ErrConfig)
		require.ErrorIs(s, approved.Send(s.Context(), (*saga.Engine)(nil), id, decision{}), saga.ErrConfig)
		large := saga.NewSignal[string]("a.large")
		require.ErrorIs(s, large.Send(s.Context(), e, id, string(make([]byte, journal.MaxResultBytes))), saga.ErrEncode)
		require.ErrorIs(s, saga.NewSignal[json.RawMessage]("a.raw").Send(s.Context(), e, id, json.RawMessage("{")), saga.ErrEncode)
		require.Zero(s, j.count("Send")+j.count("ReadOutlines"))

		_, err := d.Start(s.Context(), e, key(s.T, "k"), 1)
		require.NoError(s, err)
		s.asleep("k")
		require.ErrorIs(s, large.Send(s.Context(), e, id, "x"), saga.ErrSignal)
		err = saga.NewSignal[struct{}]("order.approved").Send(s.Context(), e, id, struct{}{})
		require.ErrorIs(s, err, saga.ErrSignal)
		require.ErrorContains(s, err, "decision")
		require.Zero(s, j.count("Send"))
		require.NoError(s, approved.Send(s.Context(), e, id, decision{"ann"}))
	})
}

// A value with a member that this build lacks leaves the saga to another one. What is no value of the type at all fails the step.
func TestAwait_unreadable(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		a := newApproval()
		d := a.definition(withTimeout(300 * day))
		e := s.openWith(s.journal, slow(d))
		desk, err := saga.NewOperator(s.journal)
		require.NoError(s, err)
		type newer struct{ By, Why string }
		_, err = d.Start(s.Context(), e, key(s.T, "k"), 1)
		require.NoError(s, err)
		s.asleep("k")
		require.NoError(s, saga.NewSignal[newer]("order.approved").Send(s.Context(), desk, approvalID(s, "k"), newer{"ann", "x"}))
		require.ErrorContains(s, errors.New(s.untilDeferred("k").Deferred.Detail), `no member "Why"`)

		require.NoError(s, saga.NewSignal[int]("order.approved").Send(s.Context(), desk, approvalID(s, "k2"), 7))
		_, err = d.Run(s.Context(), e, key(s.T, "k2"), 1)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.ErrorContains(s, err, "its value cannot be read")
	})
}

// Cancel ends a wait at once, and no value is taken any more. Builder.Timeout counts it.
func TestAwait_goesBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		a := newApproval()
		d := a.definition()
		e := s.openWith(s.journal, slow(d))
		_, err := d.Start(s.Context(), e, key(s.T, "k"), 1)
		require.NoError(s, err)
		r := s.asleep("k")
		_, err = e.RetryNow(s.Context(), r.ID, someone)
		require.ErrorIs(s, err, saga.ErrConflict, "no call of it waits")
		_, err = e.Cancel(s.Context(), r.ID, someone)
		require.NoError(s, err)
		_, err = d.Run(s.Context(), e, key(s.T, "k"), 1)
		require.ErrorIs(s, err, saga.ErrCancelled)
		require.Len(s, a.released, 1)
		require.ErrorIs(s, approved.Send(s.Context(), e, r.ID, decision{"ann"}), saga.ErrTooLate)
		require.False(s, entryOf(s.read("k"), "order.approved").Pending)
	})
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("approval", 1, func(b *saga.Builder[int, nothing]) {
			b.Timeout(time.Hour)
			saga.Await(b, approved)
		})
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), 1)
		require.ErrorIs(s, err, saga.ErrTimeout)
	})
}

// Past the pivot a saga waits for longer than its UndoBudget, which begins anew with the value.
func TestAwait_pastThePivot(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		a := newApproval()
		var up atomic.Bool
		d := saga.MustDefine("approval", 1, func(b *saga.Builder[int, string]) {
			wait := saga.Await(b, approved).After(saga.StepFunc(b, "a.pivot", b.Input(), note[int](a.held)).Pivot())
			saga.StepFunc(b, "a.mail", b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
				if !up.Load() {
					return nothing{}, errors.New("down")
				}
				return nothing{}, nil
			}).Retriable().After(wait)
			saga.Return(b, saga.Map(wait.Output(), func(d decision) string { return d.By }))
		})
		e := s.openWith(s.journal, slow(d))
		_, err := d.Start(s.Context(), e, key(s.T, "k"), 1)
		require.NoError(s, err)
		r := s.asleep("k")
		_, err = e.Cancel(s.Context(), r.ID, someone)
		require.ErrorIs(s, err, saga.ErrConflict)
		time.Sleep(60 * day)
		require.NoError(s, approved.Send(s.Context(), e, r.ID, decision{"ann"}))
		time.Sleep(23 * time.Hour)
		up.Store(true)
		s.until("k", journal.Completed)
	})
}

// A wait can have a condition. One that panics fails the step.
func TestAwait_when(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		a := newApproval()
		d := saga.MustDefine("approval", 1, func(b *saga.Builder[int, string]) {
			large := saga.Map(b.Input(), func(cents int) bool {
				if cents < 0 {
					panic("negative")
				}
				return cents > 1000
			})
			wait := saga.Await(b, approved).When(large).After(a.hold(b))
			saga.Return(b, a.ship(b, wait.Or(saga.Const(b, decision{"nobody"}))).Output())
		})
		e := s.openWith(s.journal, slow(d))
		out, err := d.Run(s.Context(), e, key(s.T, "small"), 1)
		require.NoError(s, err)
		require.Equal(s, "nobody", out)
		_, err = d.Run(s.Context(), e, key(s.T, "none"), -1)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.ErrorContains(s, err, "negative")
		_, err = d.Start(s.Context(), e, key(s.T, "large"), 2000)
		require.NoError(s, err)
		r := s.asleep("large")
		require.NoError(s, approved.Send(s.Context(), e, r.ID, decision{"ann"}))
		out, err = d.Run(s.Context(), e, key(s.T, "large"), 2000)
		require.NoError(s, err)
		require.Equal(s, "ann", out)
	})
}

// A clock that goes back or forth moves the end of a wait as it moves that of a Sleep, and each owner finds the same end.
func TestAwait_clock(t *testing.T) {
	t.Parallel()
	for _, to := range []time.Duration{-5 * time.Hour, 3 * time.Hour} {
		inBubble(t, func(s *stage) {
			var ahead atomic.Int64
			j := memjournal.NewWith(memjournal.Config{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
			a := newApproval()
			d := a.definition(withTimeout(10 * time.Hour))
			begun := time.Now()
			e := s.openOn(j, d)
			_, err := d.Start(s.Context(), e, key(s.T, "k"), 1)
			require.NoError(s, err)
			time.Sleep(time.Hour)
			ahead.Store(int64(to))
			want := 11 * time.Hour // what had passed cannot be known
			if to > 0 {
				want = 10*time.Hour - to
			}
			require.InDelta(s, want, (<-a.released).Sub(begun), float64(time.Minute))
			require.ErrorIs(s, approved.Send(s.Context(), e, approvalID(s, "k"), decision{"ann"}), saga.ErrTooLate)
		})
	}
}

// Who sends for somebody else says so. The audit log has one line for it.
func TestSignal_verb(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		a := newApproval()
		d := a.definition()
		e := s.openWith(s.journal, slow(d))
		desk, err := saga.NewOperator(s.journal)
		require.NoError(s, err)
		id := approvalID(s, "k")
		raw := json.RawMessage(`{"By":"ann"}`)
		_, err = desk.Signal(s.Context(), id, "order.approved", raw, someone)
		require.ErrorIs(s, err, saga.ErrNotFound)
		_, err = d.Start(s.Context(), e, key(s.T, "k"), 1)
		require.NoError(s, err)
		r := s.asleep("k")
		for _, tt := range []struct {
			name  string
			value any
			by    journal.Audit
			want  error
		}{
			{"order.approved", raw, journal.Audit{}, saga.ErrReasonRequired},
			{"order.approved", raw, journal.Audit{Actor: "ann", Reason: "x", Revision: 77}, saga.ErrConflict},
			{"order.approved", json.RawMessage("{"), someone, saga.ErrEncode},
			{"stock.hold", raw, someone, saga.ErrSignal},
			{"a.b", raw, someone, saga.ErrSignal},
		} {
			_, err := desk.Signal(s.Context(), id, tt.name, tt.value, tt.by)
			require.ErrorIs(s, err, tt.want)
		}
		_, err = e.Signal(s.Context(), id, "order.approved", 7, someone)
		require.ErrorIs(s, err, saga.ErrEncode, "its definition is known")
		by := journal.Audit{Actor: "ann", Reason: "the webhook is lost", Revision: r.Revision}
		for range 2 {
			r, err = desk.Signal(s.Context(), id, "order.approved", raw, by)
			require.NoError(s, err)
			by.Revision = 0
		}
		require.Equal(s, id, r.ID)
		s.until("k", journal.Completed)
		_, err = desk.Signal(s.Context(), id, "order.approved", decision{"bob"}, by)
		require.ErrorIs(s, err, saga.ErrSignalReused)
		log, err := desk.Reader().AuditPage(s.Context(), journal.AuditRequest{ID: id, Limit: 10})
		require.NoError(s, err)
		require.Len(s, log, 1)
		require.Equal(s, journal.Audit{Verb: journal.VerbSignal, Step: "order.approved", Actor: "ann", Reason: "the webhook is lost"}, log[0].Audit)
		require.Equal(s, journal.Running, log[0].From)
	})
}
