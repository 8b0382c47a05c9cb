package saga_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// A moved journal has another answer for each Change, or none.
type moved struct {
	journal.Journal

	change func(ctx context.Context, c journal.Change) (journal.Record, bool, error)
}

func (m moved) Change(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
	return m.change(ctx, c)
}

// shopAnd is the shop with a step more, which runs beside the receipt.
func shopAnd(b *saga.Builder[order, receipt]) {
	b.UndoBudget(undoBudget)
	held := saga.Step(b, reserve, b.Input()).Undo(release)
	paid := saga.Step(b, pay, b.Input()).Undo(refund)
	sent := saga.Step(b, book, saga.Map2(held.Output(), paid.Output(), func(h hold, c charge) booking {
		return booking{h.ID, c.ID}
	})).Pivot()
	saga.Step(b, notify.For("shop"), sent.Output()).Retriable()
	saga.Step(b, notify, sent.Output()).Retriable()
	saga.Return(b, saga.Map(sent.Output(), func(p parcel) receipt { return receipt(p) }))
}

// Wherever the process of a saga dies, the saga can be moved, and each call takes effect once.
func TestMigrate_afterEachDeath(t *testing.T) {
	t.Parallel()
	next := saga.MustDefine("checkout", 2, shopAnd)
	for n := range 6 {
		for _, kind := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%s write %d", kind, n), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(s *stage) {
					j := dead(s.journal, func(method string, i int) bool { return kind == "before" && method == "Append" && i == n })
					if kind == "after" {
						inner := j.before
						var killed atomic.Bool
						j.before = func(method string, i int) error {
							if killed.Load() {
								return errors.New("this process is dead")
							}
							return inner(method, i)
						}
						j.after = func(method string, i int) error {
							if method == "Append" && i == n {
								killed.Store(true)
								return errors.New("this process is dead")
							}
							return nil
						}
					}
					_, err := checkout.Start(s.Context(), s.openOn(j, checkout), key(s.T, "k"), basket)
					require.NoError(s, err)
					time.Sleep(time.Minute)
					s.store(next)
					_, _, err = s.operator(s.journal).Migrate(s.Context(), s.id("k"), next, someone)
					var refused *saga.MigrationError
					if errors.As(err, &refused) {
						require.Equal(s, []saga.MigrationProblem{{Reason: saga.MigrationOver}}, problemsOf(s.T, err))
						return
					}
					require.NoError(s, err)
					s.open(next)
					s.until("k", journal.Completed)
					for _, step := range []string{"inventory.reserve", "payment.charge", "shipping.book", "mail.receipt", "mail.receipt[shop]"} {
						s.wantEffects(step, 1, 0)
					}
				})
			})
		}
	}
}

// A move whose answer is lost has happened or not. The next one finds out.
func TestMigrate_answerLost(t *testing.T) {
	t.Parallel()
	for _, happens := range []bool{true, false} {
		inBubble(t, func(s *stage) {
			next := saga.MustDefine("checkout", 2, shopAnd)
			s.store(checkout, next)
			id := enqueue(s, checkout, "k", basket)
			lost := moved{s.journal, func(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
				if happens {
					_, _, err := s.journal.Change(ctx, c)
					require.NoError(s, err)
				}
				return journal.Record{}, false, journal.ErrFateUnknown
			}}
			_, done, err := s.operator(lost).Migrate(s.Context(), id, next, someone)
			require.ErrorIs(s, err, saga.ErrFateUnknown)
			require.False(s, done)
			_, done, err = s.operator(s.journal).Migrate(s.Context(), id, next, someone)
			require.NoError(s, err)
			require.Equal(s, !happens, done)
			s.open(next)
			s.until("k", journal.Completed)
			s.wantEffects("mail.receipt[shop]", 1, 0)
		})
	}
}

// A process goes on while its saga is moved. Its calls end, and its next write changes nothing. No call has two keys.
func TestMigrate_besideAnOwner(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		next := saga.MustDefine("checkout", 2, shopAnd)
		s.services.Script("payment.charge", sagatest.Slow(10*time.Second))
		var lost atomic.Int32
		e := s.openOn(refusals{s.journal, &lost}, checkout)
		_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Second)
		s.open(next)
		begun := time.Now()
		_, done, err := s.operator(s.journal).Migrate(s.Context(), s.id("k"), next, someone)
		require.NoError(s, err)
		require.True(s, done)
		require.Equal(s, time.Second, time.Since(begun), "it waits until the owner knows")
		s.until("k", journal.Completed)
		time.Sleep(time.Minute)
		require.NotZero(s, lost.Load(), "the owner before wrote")
		keys := make(map[string]map[string]bool)
		for _, d := range s.services.Deliveries() {
			if keys[d.Step] == nil {
				keys[d.Step] = make(map[string]bool)
			}
			keys[d.Step][d.Key.String()] = true
		}
		require.Len(s, keys, 5)
		for step, of := range keys {
			require.Len(s, of, 1, step)
			s.wantEffects(step, 1, 0)
		}
	})
}

// refusals counts the writes of an owner that the journal refuses.
type refusals struct {
	journal.Journal

	lost *atomic.Int32
}

func (r refusals) Append(ctx context.Context, o journal.Owner, w journal.Write) error {
	err := r.Journal.Append(ctx, o, w)
	if errors.Is(err, journal.ErrLeaseLost) {
		r.lost.Add(1)
	}
	return err
}

// In one process the next execution waits for a call of the one before, also where the step has another place in its plan.
// The call is made again, since its output may be of another type.
func TestMigrate_inOneProcess(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var runs, together, most atomic.Int32
		release := make(chan struct{})
		slowly := func(context.Context, saga.Call[order]) (nothing, error) {
			most.Store(max(most.Load(), together.Add(1)))
			defer together.Add(-1)
			runs.Add(1)
			<-release
			return nothing{}, nil
		}
		before := saga.MustDefine("checkout", 1, func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "a.slow", b.Input(), slowly).UndoFunc("a.back", undo)
		})
		next := saga.MustDefine("checkout", 2, func(b *saga.Builder[order, nothing]) {
			first := step(b, "a.first").ReadOnly()
			slow := saga.StepFunc(b, "a.slow", b.Input(), slowly).UndoFunc("a.back", undo)
			step(b, "a.last").ReadOnly().After(first, slow)
		})
		e := s.open(before, next)
		_, err := before.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Second)
		_, done, err := e.Migrate(s.Context(), s.id("k"), next, someone)
		require.NoError(s, err)
		require.True(s, done)
		time.Sleep(10 * time.Second)
		require.EqualValues(s, 1, runs.Load(), "it runs once at a time")
		close(release)
		s.until("k", journal.Completed)
		require.EqualValues(s, 1, most.Load())
		require.EqualValues(s, 2, runs.Load(), "the output of the other version counts as none")
	})
}

// A call without an entry may run: an owner writes it only when it has ended.
func TestMigrate_inDoubt(t *testing.T) {
	t.Parallel()
	chain := func(number int, more bool) *saga.Definition[order, nothing] {
		return saga.MustDefine("checkout", number, func(b *saga.Builder[order, nothing]) {
			b.UndoBudget(undoBudget)
			last := []saga.AnyStep{saga.Step(b, reserve, b.Input()).Undo(release)}
			if more {
				last = append(last, step(b, "a.check").ReadOnly().After(last...))
			}
			saga.Step(b, pay, b.Input()).Undo(refund).After(last...)
		})
	}
	before, next := chain(1, false), chain(2, true)
	inBubble(t, func(s *stage) {
		s.services.Script("payment.charge", sagatest.Slow(10*time.Second))
		s.store(next)
		e := s.open(before)
		_, err := before.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Second)
		require.Len(s, s.read("k").Entries, 1)
		_, _, err = s.operator(s.journal).Migrate(s.Context(), s.id("k"), next, someone)
		require.Equal(s, []saga.MigrationProblem{{saga.MigrationUnfinished, "payment.charge", ""}}, problemsOf(s.T, err))
		s.until("k", journal.Completed)
	})
	inBubble(t, func(s *stage) { // no call of it was ever sent
		s.store(before, next)
		id := enqueue(s, before, "k", basket)
		_, done, err := s.operator(s.journal).Migrate(s.Context(), id, next, someone)
		require.NoError(s, err)
		require.True(s, done)
	})
}

// Whoever is first, the saga is undone, by one plan.
func TestMigrate_andCancel(t *testing.T) {
	t.Parallel()
	next := saga.MustDefine("checkout", 2, shopAnd)
	for range 20 {
		inBubble(t, func(s *stage) {
			s.services.Script("inventory.reserve", sagatest.Slow(10*time.Second))
			e := s.open(checkout)
			_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
			require.NoError(s, err)
			time.Sleep(time.Second)
			s.open(checkout, next)
			o := s.operator(s.journal)
			var work sync.WaitGroup
			var failed error
			work.Go(func() { _, _, failed = o.Migrate(s.Context(), s.id("k"), next, someone) })
			work.Go(func() {
				_, err := o.Cancel(s.Context(), s.id("k"), someone)
				require.NoError(s, err)
			})
			work.Wait()
			r := s.until("k", journal.Compensated)
			require.Equal(s, failed == nil, r.Version == 2)
			if failed != nil {
				require.Equal(s, []saga.MigrationProblem{{Reason: saga.MigrationGoesBack}}, problemsOf(s.T, failed))
			}
			s.wantEffects("inventory.reserve", 1, 1)
			s.wantEffects("shipping.book", 0, 0)
		})
	}
}

// A saga sleeps for months and sees several deploys. Each moves it, and the old version goes. One of them is taken back.
func TestMigrate_months(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		tr := newTrial()
		told := make(chan time.Time, 10)
		number := func(n int, edit func(b *saga.Builder[time.Duration, nothing], nap *saga.SleepRef, paid saga.AnyStep)) *saga.Definition[time.Duration, nothing] {
			return saga.MustDefine("trial", n, func(b *saga.Builder[time.Duration, nothing]) {
				nap := saga.Sleep(b, "trial.ends", b.Input()).After(tr.open(b))
				edit(b, nap, tr.invoice(b).After(nap))
			})
		}
		tells := func(b *saga.Builder[time.Duration, nothing], _ *saga.SleepRef, paid saga.AnyStep) {
			saga.StepFunc(b, "account.tell", b.Input(), note[time.Duration](told)).Retriable().After(paid)
		}
		first := number(1, func(*saga.Builder[time.Duration, nothing], *saga.SleepRef, saga.AnyStep) {})
		second := number(2, tells)
		third := number(3, func(b *saga.Builder[time.Duration, nothing], nap *saga.SleepRef, paid saga.AnyStep) {
			tells(b, nap, paid)
			saga.Sleep(b, "trial.rests", saga.Const(b, 30*day)).After(paid)
		})
		e := s.openWith(s.journal, slow(first))
		_, err := first.Start(s.Context(), e, key(s.T, "k"), 90*day)
		require.NoError(s, err)
		asleep := s.asleep("k")
		begun := <-tr.opened
		deploy := func(from, to *saga.Definition[time.Duration, nothing]) {
			s.Helper()
			time.Sleep(20*day - time.Hour)
			next := s.openWith(s.journal, slow(from, to))
			counts, err := next.MigrateAll(s.Context(), saga.MigrateRequest{To: to}, someone)
			require.NoError(s, err)
			require.Equal(s, saga.MigrateCounts{Moved: 1, Problems: map[saga.MigrationProblem]int{}}, counts)
			require.NoError(s, e.Close(s.Context()))
			e = next
			time.Sleep(time.Hour) // it is due, and an engine gives it up again
			require.Equal(s, asleep.WakeAt, s.asleep("k").WakeAt, "it sleeps as long")
		}
		deploy(first, second)
		deploy(second, third)
		deploy(third, second)
		deploy(second, third)
		time.Sleep(40*day - time.Hour)
		done := s.until("k", journal.Completed)
		require.WithinDuration(s, begun.Add(90*day), <-tr.invoiced, 10*time.Minute)
		require.WithinDuration(s, begun.Add(120*day), done.FinishedAt, 20*time.Minute)
		require.Len(s, told, 1)
		require.Empty(s, tr.opened, "it ran once")
		require.Equal(s, 3, done.Version)
		log, err := s.journal.Reader().AuditPage(s.Context(), journal.AuditRequest{ID: done.ID, Limit: 10})
		require.NoError(s, err)
		var steps []string
		for _, line := range log {
			steps = append(steps, line.Step)
		}
		require.Equal(s, []string{"2 to 3", "3 to 2", "2 to 3", "1 to 2"}, steps)
	})
}

// MigrateAll counts alike with and without DryRun, goes on where it was stopped, and names each refused saga.
func TestMigrateAll(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		next := lent1.but(func(v *version) { v.pivot = "stock.give" }).define(3)
		before, after := lent1.define(1), lent1.define(2)
		s.store(after, next)
		other := saga.MustDefine("other", 1, func(b *saga.Builder[order, nothing]) {
			saga.Sleep(b, "a.nap", saga.Const(b, 100*time.Hour))
		})
		e := s.openWith(s.journal, slow(before, after, next, other))
		start := func(d *saga.Definition[order, nothing], name string) journal.ID {
			r, err := d.Start(s.Context(), e, childkey.MustParse(name), basket)
			require.NoError(s, err)
			return r.ID
		}
		const sagas = 230
		for i := range sagas {
			start(before, fmt.Sprintf("k-%d", i))
		}
		start(after, "there")
		refused := start(next, "refused")
		start(other, "other")
		cancelled := start(before, "cancelled")
		time.Sleep(time.Second)
		require.NoError(s, e.Close(s.Context()))
		o := s.operator(s.journal)
		_, err := o.Cancel(s.Context(), cancelled, someone)
		require.NoError(s, err)

		want := saga.MigrateCounts{Moved: sagas, There: 1, Refused: 2, Problems: map[saga.MigrationProblem]int{
			{Reason: saga.MigrationPivot, Step: "stock.lend"}: 1, {Reason: saga.MigrationGoesBack}: 1,
		}}
		reported := make(map[journal.ID]error)
		report := func(id journal.ID, err error) { reported[id] = err }
		counts, err := o.MigrateAll(s.Context(), saga.MigrateRequest{To: after, DryRun: true, Report: report}, journal.Audit{})
		require.NoError(s, err)
		require.Equal(s, want, counts)
		require.Len(s, reported, sagas+2)
		require.Error(s, reported[refused])
		require.Error(s, reported[cancelled])
		list := journal.BrowseRequest{Statuses: []journal.Status{journal.Running}, Name: "lent", Limit: 1000}
		versions := func() map[int]int {
			found, err := o.Reader().Browse(s.Context(), list)
			require.NoError(s, err)
			n := make(map[int]int)
			for _, r := range found {
				n[r.Version]++
			}
			return n
		}
		require.Equal(s, map[int]int{1: sagas + 1, 2: 1, 3: 1}, versions(), "a dry run wrote")

		_, err = o.MigrateAll(s.Context(), saga.MigrateRequest{To: after}, journal.Audit{})
		require.ErrorIs(s, err, saga.ErrReasonRequired)
		counts, err = o.MigrateAll(s.Context(), saga.MigrateRequest{To: after, From: 3}, someone)
		require.NoError(s, err)
		require.Equal(s, saga.MigrateCounts{There: 1, Refused: 1, Problems: map[saga.MigrationProblem]int{{Reason: saga.MigrationPivot, Step: "stock.lend"}: 1}}, counts)

		ctx, stop := context.WithCancelCause(s.Context())
		n := 0
		part, err := o.MigrateAll(ctx, saga.MigrateRequest{To: after, Report: func(journal.ID, error) {
			if n++; n == 150 {
				stop(errors.New("somebody stopped it"))
			}
		}}, someone)
		require.ErrorIs(s, err, context.Canceled)
		require.Equal(s, part.Moved, versions()[2]-1, "it counts what it did")
		require.Less(s, part.Moved, sagas)
		rest, err := o.MigrateAll(s.Context(), saga.MigrateRequest{To: after}, someone)
		require.NoError(s, err)
		require.Equal(s, sagas, part.Moved+rest.Moved)
		require.Equal(s, 1+part.Moved, rest.There)
		require.Equal(s, 2, rest.Refused)
		require.Equal(s, map[int]int{1: 1, 2: sagas + 1, 3: 1}, versions())
		log, err := o.Reader().AuditPage(s.Context(), journal.AuditRequest{Limit: 1000})
		require.NoError(s, err)
		require.Len(s, log, sagas+1)
	})
}
