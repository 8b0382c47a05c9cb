package saga_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// A dead is a journal that stops answering one process, as if that was killed.
func dead(j journal.Journal, when func(method string, n int) bool) *tapped {
	var killed atomic.Bool
	d := tap(j)
	d.before = func(method string, n int) error {
		if killed.Load() || when(method, n) {
			killed.Store(true)
			return errors.New("this process is dead")
		}
		return nil
	}
	return d
}

var errNoNetwork = errors.New("no network")

// severable is a journal that gives one process no answer while the process is cut off.
func severable(j journal.Journal) (*tapped, *atomic.Bool) {
	cut := new(atomic.Bool)
	c := tap(j)
	c.before = func(string, int) error {
		if cut.Load() {
			return errNoNetwork
		}
		return nil
	}
	return c, cut
}

// beatsOnce is a journal that gives a process a lease, and then hears no beat of it.
func beatsOnce(j journal.Journal) *tapped {
	b := tap(j)
	b.before = func(method string, n int) error {
		if method == "Heartbeat" && n > 1 {
			return errNoNetwork
		}
		return nil
	}
	return b
}

// die lets so many engines, one after the other, claim all sagas of a plan and die.
func (s *stage) die(times int, plan journal.PlanHash, sagas int) {
	s.Helper()
	for n := range times {
		engine := journal.EngineID{byte(n + 1)}
		require.NoError(s, s.journal.Heartbeat(s.Context(), engine, time.Second))
		claimed, err := s.journal.Claim(s.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{plan}, Limit: sagas})
		require.NoError(s, err)
		require.Len(s, claimed, sagas)
		time.Sleep(2 * time.Second)
	}
}

// Another process goes on where the owner died, within its lease and a poll.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Answer("shipping.book", `{"Track":"t"}`)
		first := dead(s.journal, func(method string, n int) bool { return method == "Append" && n == 2 })
		e := s.openOn(first, checkout)
		second := s.open(checkout)
		s.services.Script("payment.charge", sagatest.Slow(time.Second))
		begun := time.Now()
		_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		got, err := checkout.Run(s.Context(), second, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Equal(s, receipt{"t"}, got)
		took := time.Since(begun)
		require.LessOrEqual(s, took, saga.DefaultLease+time.Second)
		require.Greater(s, took, saga.DefaultLease/2)
		for _, step := range checkout.Steps() {
			s.wantEffects(step.Name, 1, 0)
		}
		require.EqualValues(s, 2, s.read("k").Fence)
		sent := 0
		for _, d := range s.services.Deliveries() {
			if d.Step == "inventory.reserve" {
				sent++
			}
		}
		require.Equal(s, 1, sent, "what was written was sent again")
	})
}

// A new owner's call may have been sent before: a gateway's refusal now proves nothing.
func TestTakeOver_resumesUnknown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		first := dead(s.journal, func(method string, n int) bool { return method == "Append" && n == 1 })
		s.services.Script("payment.charge", sagatest.Pass(), sagatest.Gateway(403))
		e := s.openOn(first, checkout)
		_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		_, err = checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		require.NoError(s, err)
		s.wantEffects("payment.charge", 1, 0)
	})
}

// An owner that was cut off for longer than its lease begins no more calls, and
// goes on under another name.
func TestLease_lost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		j, cut := severable(s.journal)
		s.services.Script("inventory.reserve", sagatest.Slow(time.Second))
		s.services.Script("payment.charge", sagatest.Slow(20*time.Second))
		e := s.openOn(j, checkout)
		_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		cut.Store(true)
		time.Sleep(30 * time.Second)
		require.Equal(s, 1, s.events.count(saga.EventLeaseLost))
		_, err = checkout.Start(s.Context(), e, key(s.T, "other"), basket)
		require.ErrorIs(s, err, journal.ErrLeaseLost)
		cut.Store(false)
		_, err = checkout.Start(s.Context(), e, key(s.T, "other"), basket)
		require.ErrorIs(s, err, journal.ErrLeaseLost, "there is none yet")
		require.ErrorIs(s, err, saga.ErrNotStarted)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket) // to attach takes no lease
		require.NoError(s, err)
		require.EqualValues(s, 2, s.read("k").Fence)
		for _, step := range checkout.Steps() {
			s.wantEffects(step.Name, 1, 0)
		}
	})
}

// While beats are missing, no call begins.
func TestLease_late(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.reserve", sagatest.Slow(10*time.Second)) // over half of the lease
		e := s.openOn(beatsOnce(s.journal), checkout)
		_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Minute)
		s.wantEffects("inventory.reserve", 1, 0)
		s.wantEffects("shipping.book", 0, 0)
	})
}

// The journal is away for a while: what calls returned is kept and written.
func TestJournal_away(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		j, cut := severable(s.journal)
		s.services.Script("shipping.book", sagatest.Slow(time.Second))
		e := s.openOn(j, checkout)
		_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Millisecond)
		cut.Store(true)
		time.Sleep(6 * time.Second)
		cut.Store(false)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.EqualValues(s, 1, s.read("k").Fence)
		require.Len(s, s.services.Deliveries(), 4)
		require.Positive(s, s.events.count(saga.EventJournalError))
	})
}

// A write whose answer is lost is repeated, and finds itself.
func TestJournal_answersLost(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Start", "Append", "Claim"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				j := tap(s.journal)
				j.after = func(m string, n int) error {
					if m == method && n%2 == 1 && n < 10 {
						return saga.ErrFateUnknown
					}
					return nil
				}
				if method == "Claim" {
					enqueue(s, checkout, "k", basket)
				}
				e := s.openOn(j, checkout)
				_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
				require.NoError(s, err)
				require.EqualValues(s, 1, s.read("k").Fence)
				require.Len(s, s.services.Deliveries(), 4)
			})
		})
	}
}

// A start whose fate stays unknown is found all the same.
func TestJournal_startOfUnknownFate(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		j := tap(s.journal)
		j.after = func(m string, _ int) error {
			if m == "Start" {
				return saga.ErrFateUnknown
			}
			return nil
		}
		e := s.openOn(j, checkout)
		_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrFateUnknown)
		require.NotErrorIs(s, err, saga.ErrNotStarted)
		s.until("k", journal.Completed)
	})
}

// A saga whose COMMIT got no answer is executed within a second of the time when it is durable,
// whatever its caller does. This holds even if it becomes durable long after the answer was lost.
func TestJournal_startIsFoundAtTheNextPoll(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{0, 20 * time.Second} {
		inBubble(t, func(s *stage) {
			j := &lateStarts{Journal: s.journal, by: late}
			e := s.openOn(j, checkout)
			s.open(checkout) // another process, which lives
			time.Sleep(5 * time.Second)
			j.lost.Store(true)
			begun := time.Now()
			_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrFateUnknown)
			j.lost.Store(false)
			time.Sleep(late + time.Second - time.Since(begun))
			require.Equal(s, journal.Completed, s.read("k").Status)
			require.EqualValues(s, 1, s.read("k").Fence, "the engine that started it")
		})
	}
}

// lateStarts is a journal that loses the answers of starts, and writes them after a while.
type lateStarts struct {
	journal.Journal
	by   time.Duration
	lost atomic.Bool
	once sync.Once
}

func (j *lateStarts) Start(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
	if !j.lost.Load() {
		return j.Journal.Start(ctx, req)
	}
	j.once.Do(func() {
		time.AfterFunc(j.by, func() { _, _, _ = j.Journal.Start(context.WithoutCancel(ctx), req) })
	})
	return journal.Record{}, false, saga.ErrFateUnknown
}

// Before the plan is stored nothing is called.
func TestStart_failed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		j := tap(s.journal)
		broken := errors.New("no")
		j.before = func(m string, _ int) error {
			if m == "Start" {
				return broken
			}
			return nil
		}
		e := s.openOn(j, checkout)
		_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, broken)
		require.ErrorIs(s, err, saga.ErrNotStarted)
		time.Sleep(time.Hour)
		require.Empty(s, s.services.Deliveries())
	})
}

// N steps one after the other cost N + 1 writes.
func TestWrites(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := line()
		j := tap(s.journal)
		e := s.openOn(j, d)
		_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Equal(s, 1, j.count("Start"))
		require.Equal(s, 3, j.count("Append"))
		require.Zero(s, j.count("Read"))
	})
}

// line is three steps one after the other.
func line() *saga.Definition[order, nothing] {
	return saga.MustDefine("line", 1, func(b *saga.Builder[order, nothing]) {
		keep := 2 * saga.DefaultUndoBudget
		held := saga.Step(b, reserve, b.Input()).Undo(release).Retention(keep)
		paid := saga.Step(b, pay, saga.Map2(b.Input(), held.Output(), func(o order, _ hold) order { return o })).Undo(refund).Retention(keep)
		saga.Step(b, book, saga.Map2(held.Output(), paid.Output(), func(h hold, c charge) booking {
			return booking{h.ID, c.ID}
		})).Retention(keep)
	})
}

// A wait of more than a second is in the journal: a new owner neither shortens
// it nor begins it anew.
func TestBackoff_isKept(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("mail.receipt", sagatest.Always(sagatest.Unavailable()))
		first := s.open(checkout)
		_, err := checkout.Start(s.Context(), first, key(s.T, "k"), basket)
		require.NoError(s, err)
		var r journal.Record
		for range 3600 {
			if r = s.read("k"); r.WakeAt.Sub(r.Now) > 30*time.Second {
				break
			}
			time.Sleep(time.Second)
		}
		require.Greater(s, r.WakeAt.Sub(r.Now), 30*time.Second, "the wait is not in the journal")
		require.NoError(s, first.Close(s.Context()))
		sent := len(s.services.Deliveries())
		s.open(checkout)
		time.Sleep(time.Until(r.WakeAt) - time.Second)
		require.Len(s, s.services.Deliveries(), sent, "sent before its time")
		time.Sleep(2 * time.Second)
		require.Greater(s, len(s.services.Deliveries()), sent, "not sent when its time came")
		require.Zero(s, s.read("k").RecoveryAttempts)
	})
}

// Close waits for running calls, stores their outcomes, and gives the sagas up.
func TestClose(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.reserve", sagatest.Slow(5*time.Second))
		e := s.open(checkout)
		ran := make(chan error, 1)
		go func() {
			_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			ran <- err
		}()
		time.Sleep(time.Second)
		begun := time.Now()
		require.NoError(s, e.Close(s.Context()))
		require.Equal(s, 4*time.Second, time.Since(begun))
		require.ErrorIs(s, <-ran, saga.ErrDetached)
		require.ErrorIs(s, e.Close(s.Context()), saga.ErrClosed)
		_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrClosed)
		require.Len(s, s.read("k").Entries, 2)
		s.wantEffects("shipping.book", 0, 0)

		begun = time.Now()
		_, err = checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Less(s, time.Since(begun), time.Second)
		require.Len(s, s.services.Deliveries(), 4)
	})
}

func TestClose_cutsOff(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.reserve", sagatest.Slow(time.Minute/2))
		e := s.open(checkout)
		_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		require.ErrorIs(s, e.Close(ctx), context.DeadlineExceeded)
		_, err = checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		require.NoError(s, err)
		s.wantEffects("inventory.reserve", 1, 0)
	})
}

// Sagas of a version that nobody has are deferred: not failed, not guessed at.
func TestVersions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		first := s.open(checkout)
		s.services.Script("inventory.reserve", sagatest.Slow(time.Second)) // the step still runs when the engine closes
		_, err := checkout.Start(s.Context(), first, key(s.T, "old"), basket)
		require.NoError(s, err)
		require.NoError(s, first.Close(s.Context()))

		next := saga.MustDefine("checkout", 2, shop)
		second := s.open(next)
		time.Sleep(5 * time.Minute)
		require.Equal(s, journal.Running, s.read("old").Status)
		require.ErrorContains(s, s.events.first(saga.EventDeferred).Err, "keep each version in Config.Definitions")
		_, err = next.Run(s.Context(), second, key(s.T, "old"), basket)
		require.ErrorIs(s, err, saga.ErrNoDefinition)
		_, err = next.Run(s.Context(), second, key(s.T, "new"), basket)
		require.NoError(s, err)

		both := s.open(checkout, next)
		_, err = next.Run(s.Context(), both, key(s.T, "old"), basket) // the same saga, in its version
		require.NoError(s, err)
		require.Equal(s, 1, s.read("old").Version)
	})
}

func TestOpen_changedPlan(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.open(checkout)
		other := saga.MustDefine("checkout", 1, func(b *saga.Builder[order, receipt]) {
			saga.Step(b, reserve, b.Input()).Undo(release)
			saga.Step(b, pay, b.Input()).Undo(refund)
			saga.Return(b, saga.Map(b.Input(), func(order) receipt { return receipt{} }))
		})
		client, err := s.services.Client("inventory", "payment")
		require.NoError(s, err)
		_, err = saga.Open(s.Context(), s.journal, saga.Config{Client: client, Definitions: []saga.AnyDefinition{other}})
		require.ErrorIs(s, err, saga.ErrPlanChanged)
		require.ErrorContains(s, err, "\n\t- shipping.book POST /parcels pivot after inventory.reserve, payment.charge")
		var plan *saga.PlanError
		require.ErrorAs(s, err, &plan)
		require.Len(s, plan.Problems, 1)
		require.Equal(s, 2, strings.Count(err.Error(), "\n\t- "))
		require.NotContains(s, err.Error(), "\n\t+ ")
	})
}

// A saga that takes its engines with it is stuck after a while, and harms no
// other.
func TestPoison(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		enqueue(s, checkout, "k", basket)
		s.die(6, checkout.Plan().Hash, 1)
		told := make(chan journal.Record, 1)
		e := s.openWith(s.journal, saga.Config{
			Definitions: []saga.AnyDefinition{checkout},
			OnStuck:     func(_ context.Context, r journal.Record) { told <- r },
		})
		_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		require.Empty(s, s.services.Deliveries())
		require.Equal(s, journal.ReasonRecoveryAttempts, (<-told).StuckOn.Reason)
		_, err = checkout.Run(s.Context(), e, key(s.T, "other"), basket)
		require.NoError(s, err)
		_, err = e.Retry(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
	})
}

// A record that cannot be read is put aside, and no other saga suffers.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		mar  func(req *journal.StartRequest) []journal.Entry
	}{
		{"input", func(req *journal.StartRequest) []journal.Entry {
			req.Input = []byte(`{"cents":"many"}`)
			return nil
		}},
		{"an unknown step", func(*journal.StartRequest) []journal.Entry { return []journal.Entry{{Step: "no.such"}} }},
		{"a result", func(*journal.StartRequest) []journal.Entry {
			return []journal.Entry{{Step: "inventory.reserve", Outcome: retry.Completed, Result: []byte(`[`)}}
		}},
		{"a scope", func(req *journal.StartRequest) []journal.Entry {
			req.Scope = "\xff" // its calls have no key
			return nil
		}},
	}
	for _, tt := range tests {
		inBubble(t, func(s *stage) {
			req, err := checkout.Request(key(s.T, "k"), basket)
			require.NoError(s, err)
			entries := tt.mar(&req)
			req.Engine = journal.EngineID{1}
			_, _, err = s.journal.Start(s.Context(), req)
			require.NoError(s, err)
			o := journal.Owner{ID: req.ID, Engine: req.Engine, Fence: 1}
			require.NoError(s, s.journal.Append(s.Context(), o, journal.Write{Revision: 2, Entries: entries}))
			e := s.open(checkout)
			r := s.until("k", journal.Stuck)
			require.Equal(s, journal.ReasonCorrupt, r.StuckOn.Reason, tt.name)
			_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrStuck)
			require.ErrorIs(s, err, saga.ErrCorrupt)
			_, err = checkout.Run(s.Context(), e, key(s.T, "other"), basket)
			require.NoError(s, err)
		})
	}
}

// Sagas whose engines died together wait after the second death, each for another time. So a saga
// that kills its engine does not meet the same sagas again. A saga without a death does not wait.
func TestPoison_backsOff(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		const together = 5
		begun := make(chan time.Time, together)
		slow := saga.MustDefine("slow", 1, func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "a.a", b.Input(), func(_ context.Context, c saga.Call[order]) (nothing, error) {
				if c.Input.Cents == 0 { // one of those whose engines died
					begun <- time.Now()
				}
				time.Sleep(time.Minute)
				return nothing{}, nil
			}).ReadOnly()
		})
		for i := range together {
			enqueue(s, slow, fmt.Sprint("k-", i), order{})
		}
		s.die(2, slow.Plan().Hash, together)
		died := time.Now().Add(-time.Second) // a second before die returns the lease was over
		enqueue(s, slow, "innocent", order{Cents: 1})
		opened := time.Now()
		s.open(slow)
		for s.read("innocent").Fence == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(s, time.Since(opened), time.Second, "it waited for others")
		least, most := time.Hour, time.Duration(0)
		for range together {
			waited := (<-begun).Sub(died)
			least, most = min(least, waited), max(most, waited)
		}
		require.GreaterOrEqual(s, least, saga.DefaultLease)
		require.LessOrEqual(s, most, 2*saga.DefaultLease+time.Second, "they waited for each other")
		require.Greater(s, most-least, time.Second, "they came back together")
		for i := range together {
			r := s.until(fmt.Sprint("k-", i), journal.Completed)
			require.Zero(s, r.RecoveryAttempts)
		}
	})
}

// An illegible journal cannot read what it has.
type illegible struct{ journal.Journal }

var errIllegible = fmt.Errorf("%w: torn page", saga.ErrCorrupt)

func (j illegible) Read(ctx context.Context, id journal.ID) (journal.Record, error) {
	r, err := j.Journal.Read(ctx, id)
	r.Corrupt = errIllegible
	return r, err
}

func (j illegible) Claim(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
	claimed, err := j.Journal.Claim(ctx, req)
	for i := range claimed {
		claimed[i].Corrupt = errIllegible
	}
	return claimed, err
}

// A saga that the journal cannot read is made stuck as well, without a call, and a person can end
// it.
func TestCorrupt_record(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		enqueue(s, checkout, "k", basket)
		e := s.openOn(illegible{s.journal}, checkout)
		r := s.until("k", journal.Stuck)
		require.Equal(s, journal.ReasonCorrupt, r.StuckOn.Reason)
		require.Contains(s, r.StuckOn.Detail, "torn page")
		require.Empty(s, s.services.Deliveries())
		_, err := e.Cancel(s.Context(), r.ID, someone)
		require.ErrorIs(s, err, saga.ErrCorrupt, "nobody knows whether it is past its pivot")
		_, err = e.Retry(s.Context(), r.ID, someone)
		require.ErrorIs(s, err, saga.ErrCorrupt, "nobody knows what is to be tried again")
		require.Equal(s, r.Revision, s.read("k").Revision)
		r, err = e.Abandon(s.Context(), r.ID, someone)
		require.NoError(s, err)
		require.Equal(s, journal.Abandoned, r.Status)
	})
}

// Two processes share a thousand unowned sagas, and execute none twice.
func TestTakeOver_many(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		const sagas = 1000
		for i := range sagas {
			enqueue(s, checkout, fmt.Sprint("k-", i), basket)
		}
		cfg := saga.Config{Definitions: []saga.AnyDefinition{checkout}, MaxActive: 50}
		s.openWith(s.journal, cfg)
		s.openWith(s.journal, cfg)
		for i := range sagas {
			r := s.until(fmt.Sprint("k-", i), journal.Completed)
			if r.Fence != 1 {
				s.Fatalf("fence = %d, want 1", r.Fence)
			}
		}
		require.Len(s, s.services.Deliveries(), 4*sagas)
	})
}

// A saga that goes back, is taken over and then gets stuck has no entry for the undo of a step without one: a person can
// retry it.
func TestTakeOver_stuckBesideAStepWithoutUndo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var helped atomic.Bool
		d := saga.MustDefine("looked", 1, func(b *saga.Builder[int, nothing]) {
			look := saga.StepFunc(b, "a.look", b.Input(), note[int](make(chan time.Time, 10))).ReadOnly()
			nap := saga.Sleep(b, "a.nap", saga.Const(b, time.Second)).After(look)
			held := saga.StepFunc(b, "a.hold", b.Input(), note[int](make(chan time.Time, 10))).After(nap).
				UndoFunc("a.release", func(context.Context, saga.UndoCall[int, nothing]) error {
					if helped.Load() {
						return nil
					}
					return saga.Rejected(errors.New("it is gone"))
				})
			saga.StepFunc(b, "a.charge", b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
				return nothing{}, saga.Rejected(errors.New("no money"))
			}).ReadOnly().After(held)
		})
		first := dead(s.journal, func(method string, _ int) bool {
			return method == "Append" && s.read("k").Status == journal.Compensating
		})
		_, err := d.Start(s.Context(), s.openOn(first, d), key(s.T, "k"), 1)
		require.NoError(s, err)
		s.until("k", journal.Compensating)
		e := s.open(d)
		r := s.until("k", journal.Stuck)
		require.EqualValues(s, 2, r.Fence)
		for _, entry := range r.Entries {
			require.False(s, entry.Undo && entry.Step != "a.hold", "an undo of %s", entry.Step)
		}
		helped.Store(true)
		_, err = e.Retry(s.Context(), r.ID, someone)
		require.NoError(s, err)
		s.until("k", journal.Compensated)
	})
}
