package sagatest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// A monitor watches the actions of all processes on the journal and on the services. It notes
// their violations.
type monitor struct {
	journal.Journal
	network  roundTripper
	services *Services
	id       journal.ID    // of the saga
	budget   time.Duration // of the undos; a quarter of it after the failure, a step of unknown outcome may be undone
	steps    []saga.StepInfo

	mu         sync.Mutex
	called     map[string]bool // steps
	begun      map[string]bool // steps that had begun when Cancel returned; nil: it did not
	completed  map[string]bool // steps that were complete in the journal at that time
	leases     map[journal.EngineID]time.Time
	sleepEnds  map[string]time.Time // of the sleeps that the journal has
	told       map[string]*told     // by signal
	woken      time.Time            // when it was cancelled, if it slept then
	turned     bool                 // the journal's clock has gone back
	slack      time.Duration        // of a sleep since then
	retried    bool                 // nobody is there for a week
	fence      int64
	violations []string
}

func (m *monitor) note(format string, args ...any) {
	m.violations = append(m.violations, fmt.Sprintf(format, args...))
}

// isCancelled reports whether a Cancel has returned.
func (m *monitor) isCancelled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begun != nil
}

// notes returns the violations.
func (m *monitor) notes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.violations)
}

// Heartbeat implements [journal.Journal].
func (m *monitor) Heartbeat(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.Journal.Heartbeat(ctx, engine, lease)
	if err == nil {
		m.leases[engine] = time.Now().Add(lease)
	}
	return err
}

// Leave implements [journal.Journal].
func (m *monitor) Leave(ctx context.Context, engine journal.EngineID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leases, engine)
	return m.Journal.Leave(ctx, engine)
}

// Start implements [journal.Journal].
func (m *monitor) Start(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, created, err := m.Journal.Start(ctx, req)
	if created {
		m.fence = r.Fence
	}
	return r, created, err
}

// Claim implements [journal.Journal].
func (m *monitor) Claim(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, _ := m.Read(ctx, m.id)
	claimed, err := m.Journal.Claim(ctx, req)
	for _, r := range claimed {
		if until := m.leases[was.Engine]; time.Now().Before(until) {
			m.note("the saga was taken over %v before its owner's lease ended", time.Until(until))
		}
		if r.Fence <= m.fence {
			m.note("the fence is %d after a take-over, and was %d before", r.Fence, m.fence)
		}
		m.fence = r.Fence
	}
	return claimed, err
}

// Append implements [journal.Journal].
func (m *monitor) Append(ctx context.Context, o journal.Owner, w journal.Write) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, _ := m.Read(ctx, o.ID)
	err := m.Journal.Append(ctx, o, w)
	if err != nil {
		return err
	}
	m.checkSleeps(was.Now, w)
	m.checkAwaits(was, w)
	m.checkWoken(w)
	now, _ := m.Read(ctx, o.ID)
	if o.Fence != was.Fence && now.Revision != was.Revision {
		m.note("an owner with fence %d wrote to a saga with fence %d", o.Fence, was.Fence)
	}
	if !isAllowed(was, now) {
		m.note("the saga went from %v to %v", was.Status, now.Status)
	}
	return nil
}

// isAllowed reports whether a saga may change so without a verb.
func isAllowed(was, now journal.Record) bool {
	if was.Status == now.Status {
		return was.Status.Active() || was.Revision == now.Revision
	}
	switch was.Status {
	case journal.Running:
		return now.Status == journal.Completed || now.Status == journal.Compensating || now.Status == journal.Stuck
	case journal.Compensating:
		return now.Status == journal.Compensated || now.Status == journal.Stuck
	default:
		return false
	}
}

// Change implements [journal.Journal].
func (m *monitor) Change(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, won, err := m.Journal.Change(ctx, c)
	if won {
		m.fence = max(m.fence, r.Fence)
	}
	return r, won, err
}

// RoundTrip watches a call.
func (m *monitor) RoundTrip(req *http.Request) (*http.Response, error) {
	info, _ := saga.FromContext(req.Context())
	m.mu.Lock()
	r, err := m.Read(req.Context(), m.id)
	undo := req.Header.Get(wire.HeaderCancels) != ""
	if !info.Undo && !undo && r.Status == journal.Compensating && !isKnown(r, info.Step) {
		m.note("%s begins, and the saga goes back", info.Step)
	}
	switch {
	case err != nil:
		m.note("%s was called before the plan was stored", info.Step)
	case !undo && !info.Undo:
		m.checkSlept(info.Step, r)
		m.checkNamed(info.Step, r)
	case undo && r.FailedAt.IsZero():
		m.note("%s is undone, and the journal says that the saga goes on", info.Step)
	case undo:
		m.checkResolved(info.Step, r)
		m.checkOrder(info.Step)
	}
	m.mu.Unlock()
	return m.network.RoundTrip(req)
}

// isKnown reports whether the journal says that the step was called.
func isKnown(r journal.Record, step string) bool {
	return slices.ContainsFunc(r.Entries, func(e journal.Entry) bool { return e.Step == step && !e.Undo })
}

// isSpent reports whether the step of an entry has had all its attempts, or its time.
func (m *monitor) isSpent(e journal.Entry, r journal.Record) bool {
	for _, s := range m.steps {
		if s.Name == e.Step {
			limit := s.Timeout
			if limit == 0 && s.Retriable {
				limit = m.budget
			}
			return s.Attempts > 0 && e.Attempts >= s.Attempts || limit > 0 && r.Now.Sub(r.FirstClaimedAt) >= limit
		}
	}
	return false
}

// checkResolved notes an undo of a step whose outcome is unknown, while attempts and time to learn it
// are left.
func (m *monitor) checkResolved(step string, r journal.Record) {
	for _, e := range r.Entries {
		if e.Step != step || e.Undo {
			continue
		}
		if e.Pending && r.Now.Sub(r.FailedAt) < m.budget/4 && !m.isSpent(e, r) {
			m.note("%s is undone before it is known how its call ended", step)
		}
		return
	}
	m.note("%s is undone, and the journal does not know that it was called", step)
}
