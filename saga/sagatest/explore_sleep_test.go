package sagatest

import (
	"context"
	"testing"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// trial sleeps beside a call before its pivot, in two branches, and for less than a lease after it.
var trial = saga.MustDefine("trial", 1, func(b *saga.Builder[order, nothing]) {
	held := saga.Step(b, reserve, b.Input()).Undo(unhold)
	long := saga.Sleep(b, "trial.ends", saga.Const(b, 6*time.Hour)).After(held)
	beside := saga.Sleep(b, "trial.reminds", saga.Const(b, 2*time.Hour))
	paid := saga.Step(b, charge, b.Input()).Undo(refund).After(beside)
	sent := saga.Step(b, book, saga.Map2(held.Output(), paid.Output(), both)).Pivot().After(long)
	short := saga.Sleep(b, "trial.rests", saga.Const(b, 10*time.Second)).After(sent)
	saga.Step(b, notify, sent.Output()).Retriable().After(short)
})

func TestExplore_sleep(t *testing.T) {
	t.Parallel()
	Explore(t, trial, order{"a-1"}, sampled, func(e *explorer) { e.every = max(e.every, 3) * 3 }) // hours of polls each
}

// claims makes the defect that edit is done to every saga that an engine claims.
func claims(edit func(r *journal.Record, e *journal.Entry)) func(e *explorer) {
	return journalDefect(func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			claimed, err := m.Journal.Claim(ctx, req)
			for i := range claimed {
				for k := range claimed[i].Entries {
					edit(&claimed[i], &claimed[i].Entries[k])
				}
			}
			return claimed, err
		}
	})
}

func isOpenSleep(e *journal.Entry) bool { return e.Step == "trial.ends" && e.Pending }

// sleepDefects are mistakes about sleeps.
var sleepDefects = []planted{
	{"counts a sleep from its last claim", "all goes well", claims(func(r *journal.Record, e *journal.Entry) {
		if r.Now.Sub(r.FirstClaimedAt) > 3*time.Hour {
			return // else it sleeps for ever
		}
		if isOpenSleep(e) {
			e.RetryAt = time.Time{}
		}
		if e.Step == "inventory.reserve" && !e.Undo {
			e.At = r.Now
		}
	})},
	{"ends a sleep when its saga is woken", "all goes well", claims(func(r *journal.Record, e *journal.Entry) {
		if isOpenSleep(e) {
			e.RetryAt = r.Now
		}
	})},
	{"does not write that a sleep has ended", "all goes well", writes(func(_ journal.Record, w *journal.Write) {
		drop(w, func(e journal.Entry) bool { return e.Step == "trial.ends" && e.Outcome == retry.Completed })
	})},
	{"takes an open sleep for one that has ended once it has taken over", "all goes well", claims(func(_ *journal.Record, e *journal.Entry) {
		if isOpenSleep(e) {
			e.Pending, e.Outcome, e.Result = false, retry.Completed, []byte("{}")
		}
	})},
	{"does not write until when it sleeps", "all goes well", writes(func(_ journal.Record, w *journal.Write) {
		if !w.WakeAt.IsZero() {
			w.WakeAt = w.WakeAt.Add(8 * time.Hour)
		}
	})},
	{"sleeps longer if the clock goes back", "all goes well", func(e *explorer) {
		e.disturb = []disturbance{turnBack}
		claims(func(r *journal.Record, e *journal.Entry) {
			if isOpenSleep(e) && e.At.After(r.Now) {
				e.At = r.Now
			}
		})(e)
	}},
	{"lets a cancelled saga sleep on", "all goes well", func(e *explorer) {
		e.disturb = []disturbance{cancel, cancelHere}
		journalDefect(func(m *mutant) {
			m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
				r, err := m.Read(ctx, journal.IDOf("", "trial", exploreKey))
				for _, e := range r.Entries {
					if err == nil && r.Cancel && isOpenSleep(&e) && e.RetryAt.After(r.Now) {
						return nil, nil
					}
				}
				return m.Journal.Claim(ctx, req)
			}
		})(e)
	}},
}

func TestExplore_catchesDefectsOfSleeps(t *testing.T) {
	t.Parallel()
	for _, d := range sleepDefects {
		t.Run(d.name, func(t *testing.T) {
			catch(t, d, func() *explorer { return newExplorer(trial, order{"a-1"}, nil) })
		})
	}
}
