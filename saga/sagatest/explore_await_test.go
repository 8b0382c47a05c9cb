package sagatest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

type decided struct{ By string }

// approval awaits a value before its pivot, beside a call, and one after it, where it goes on without.
var approval = saga.MustDefine("approval", 1, func(b *saga.Builder[order, nothing]) {
	held := saga.Step(b, reserve, b.Input()).Undo(unhold)
	told := saga.Await(b, saga.NewSignal[decided]("order.approved")).After(held).Timeout(6 * time.Hour)
	paid := saga.Step(b, charge, b.Input()).Undo(refund)
	sent := saga.Step(b, book, saga.Map2(held.Output(), paid.Output(), both)).Pivot().After(told)
	seen := saga.Await(b, saga.NewSignal[decided]("order.seen")).After(sent).Timeout(8 * time.Hour).Optional()
	saga.Step(b, notify, sent.Output()).Retriable().After(seen)
})

func approvalExplorer() *explorer {
	return newExplorer(approval, order{"a-1"}, []Option{Answer("order.approved", decided{"ann"}), Answer("order.seen", decided{"bob"})})
}

func TestExplore_await(t *testing.T) {
	t.Parallel()
	Explore(t, approval, order{"a-1"}, Answer("order.approved", decided{"ann"}), Answer("order.seen", decided{"bob"}),
		sampled, func(e *explorer) { e.every = max(e.every, 3) * 3 }) // hours of polls each
}

func isOpenWait(e *journal.Entry) bool { return e.Step == "order.approved" && e.Pending }

// ofSignals makes a defect of what the journal says of signals.
func ofSignals(mar func(m *mutant)) func(e *explorer) { return journalDefect(mar) }

// awaitDefects are mistakes about signals.
var awaitDefects = []planted{
	{"loses a signal that comes before its saga", "order.approved is sent before the saga begins", ofSignals(func(m *mutant) {
		m.send = func(ctx context.Context, s journal.Signal, by journal.Audit) error {
			if _, err := m.Read(ctx, s.ID); errors.Is(err, journal.ErrNotFound) {
				return nil
			}
			return m.Journal.Send(ctx, s, by)
		}
	})},
	{"does not wake a saga that sleeps", "all goes well", ofSignals(asleepToSignals)},
	{"ends a wait without a look at the signals", "order.approved is sent at the end of its time", ofSignals(func(m *mutant) {
		asleepToSignals(m)
		m.end = func(_ context.Context, o journal.Owner, name string) (journal.Signal, error) {
			return journal.Signal{ID: o.ID, Name: name}, nil
		}
	})},
	{"takes a value after the end of its wait", "order.approved is sent too late", ofSignals(func(m *mutant) {
		m.send = func(ctx context.Context, s journal.Signal, by journal.Audit) error {
			err := m.Journal.Send(ctx, s, by)
			if errors.Is(err, journal.ErrTooLate) {
				return nil
			}
			return err
		}
	})},
	{"keeps the latest value", "order.approved is sent twice with other values", ofSignals(func(m *mutant) {
		m.send = func(ctx context.Context, s journal.Signal, by journal.Audit) error {
			err := m.Journal.Send(ctx, s, by)
			if errors.Is(err, journal.ErrSignalReused) {
				return nil
			}
			return err
		}
	})},
	{"takes a signal out of the journal when it reads it", "all goes well", ofSignals(func(m *mutant) {
		var mu sync.Mutex
		read := make(map[string]bool)
		m.sent = func(ctx context.Context, ids []journal.ID) ([]journal.Signal, error) {
			mu.Lock()
			defer mu.Unlock()
			found, err := m.Journal.Signals(ctx, ids)
			found = slices.DeleteFunc(found, func(s journal.Signal) bool { return read[s.Name] })
			for _, s := range found {
				read[s.Name] = true
			}
			return found, err
		}
	})},
	{"does not write that a signal came", "all goes well", writes(func(_ journal.Record, w *journal.Write) {
		drop(w, func(e journal.Entry) bool { return e.Step == "order.approved" && e.Outcome == retry.Completed })
	})},
	{"fails a wait by its own clock", "order.approved is sent too late", ofSignals(func(m *mutant) {
		m.end = func(_ context.Context, o journal.Owner, name string) (journal.Signal, error) {
			return journal.Signal{ID: o.ID, Name: name}, nil
		}
	})},
	{"takes an open wait for one that has ended once it has taken over", "all goes well", claims(func(_ *journal.Record, e *journal.Entry) {
		if isOpenWait(e) {
			e.Pending, e.Outcome, e.Result = false, retry.Completed, []byte("{}")
		}
	})},
	{"counts a wait from its last claim", "order.approved is sent too late", claims(func(r *journal.Record, e *journal.Entry) {
		if r.Now.Sub(r.FirstClaimedAt) > 3*time.Hour {
			return // else it waits for ever
		}
		if isOpenWait(e) {
			e.RetryAt = r.Now.Add(9 * time.Hour)
		}
	})},
	{"lets a cancelled saga wait on", "order.approved is sent too late", func(e *explorer) {
		e.disturb = []disturbance{cancel, cancelHere}
		journalDefect(func(m *mutant) {
			m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
				r, err := m.Read(ctx, journal.IDOf("", "approval", exploreKey))
				for _, e := range r.Entries {
					if err == nil && r.Cancel && isOpenWait(&e) && e.RetryAt.After(r.Now) {
						return nil, nil
					}
				}
				return m.Journal.Claim(ctx, req)
			}
		})(e)
	}},
	{"loses a signal that comes while its owner gives the saga up", "all goes well", func(e *explorer) {
		e.disturb = []disturbance{sendHere}
		ofSignals(func(m *mutant) {
			m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
				err := m.Journal.Append(ctx, o, w)
				r, _ := m.Read(ctx, o.ID)
				if err != nil || w.WakeAt.IsZero() || r.WakeAt.After(r.Now) || !slices.ContainsFunc(r.Entries, func(e journal.Entry) bool { return isOpenWait(&e) }) {
					return err
				}
				// It was to be due: another owner has it, and gives it up as the first one wanted to.
				claimed, _ := m.Journal.Claim(ctx, journal.ClaimRequest{Engine: o.Engine, Plans: []journal.PlanHash{r.Plan}, Limit: 1})
				for _, c := range claimed {
					again := journal.Write{Revision: c.Revision + 1, WakeAt: w.WakeAt}
					err = errors.Join(err, m.Journal.Append(ctx, journal.Owner{ID: c.ID, Engine: c.Engine, Fence: c.Fence}, again))
				}
				return err
			}
		})(e)
	}},
}

// asleepToSignals keeps the signals beside the journal, and wakes nothing.
func asleepToSignals(m *mutant) {
	var mu sync.Mutex
	stored := make(map[string]journal.Signal)
	m.send = func(_ context.Context, s journal.Signal, _ journal.Audit) error {
		mu.Lock()
		defer mu.Unlock()
		if first, ok := stored[s.Name]; ok && !bytes.Equal(first.Value, s.Value) {
			return journal.ErrSignalReused
		}
		stored[s.Name] = s
		return nil
	}
	m.sent = func(context.Context, []journal.ID) (all []journal.Signal, _ error) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range stored {
			all = append(all, s)
		}
		return all, nil
	}
}

func TestExplore_catchesDefectsOfAwaits(t *testing.T) {
	t.Parallel()
	for _, d := range awaitDefects {
		t.Run(d.name, func(t *testing.T) { catch(t, d, approvalExplorer) })
	}
}
