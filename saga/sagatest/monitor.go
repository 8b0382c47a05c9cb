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
)

// A monitor watches what all processes do to the journal and to the services,
// and notes what they must not do.
type monitor struct {
	saga.Journal
	network  roundTripper
	services *Services
	id       saga.ID       // of the saga
	unseen   time.Duration // after the turn, when what nobody could find out about may be undone
	steps    []saga.StepInfo
	edges    bool // only the beginning and the end of the saga are in the journal

	mu         sync.Mutex
	called     map[string]bool // steps
	begun      map[string]bool // steps that had begun when Cancel returned; nil: it did not
	leases     map[saga.EngineID]time.Time
	fence      int64
	violations []string
}

func (m *monitor) violation(format string, args ...any) {
	m.violations = append(m.violations, fmt.Sprintf(format, args...))
}

// noted returns the violations.
func (m *monitor) noted() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.violations)
}

// Beat implements [saga.Journal].
func (m *monitor) Beat(ctx context.Context, engine saga.EngineID, lease time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.Journal.Beat(ctx, engine, lease)
	if err == nil {
		m.leases[engine] = time.Now().Add(lease)
	}
	return err
}

// Leave implements [saga.Journal].
func (m *monitor) Leave(ctx context.Context, engine saga.EngineID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leases, engine)
	return m.Journal.Leave(ctx, engine)
}

// Start implements [saga.Journal].
func (m *monitor) Start(ctx context.Context, req saga.StartRequest) (saga.Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, created, err := m.Journal.Start(ctx, req)
	if created {
		m.fence = r.Fence
	}
	return r, created, err
}

// Claim implements [saga.Journal].
func (m *monitor) Claim(ctx context.Context, req saga.ClaimRequest) ([]saga.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, _ := m.Read(ctx, m.id)
	claimed, err := m.Journal.Claim(ctx, req)
	for _, r := range claimed {
		if until := m.leases[was.Engine]; time.Now().Before(until) {
			m.violation("the saga was taken over %v before its owner's lease ended", time.Until(until))
		}
		if r.Fence <= m.fence {
			m.violation("the fence is %d after a take-over, and was %d before", r.Fence, m.fence)
		}
		m.fence = r.Fence
	}
	return claimed, err
}

// Append implements [saga.Journal].
func (m *monitor) Append(ctx context.Context, o saga.Owner, w saga.Write) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, _ := m.Read(ctx, o.ID)
	err := m.Journal.Append(ctx, o, w)
	if err != nil {
		return err
	}
	now, _ := m.Read(ctx, o.ID)
	if o.Fence != was.Fence && now.Revision != was.Revision {
		m.violation("an owner with fence %d wrote to a saga with fence %d", o.Fence, was.Fence)
	}
	if !allowed(was, now) {
		m.violation("the saga went from %v to %v", was.Status, now.Status)
	}
	return nil
}

// allowed reports whether a saga may move so by itself.
func allowed(was, now saga.Record) bool {
	if was.Status == now.Status {
		return was.Status.Driven() || was.Revision == now.Revision
	}
	switch was.Status {
	case saga.Running:
		return now.Status == saga.Completed || now.Status == saga.Compensating || now.Status == saga.Stuck
	case saga.Compensating:
		return now.Status == saga.Compensated || now.Status == saga.Stuck
	default:
		return false
	}
}

// Change implements [saga.Journal].
func (m *monitor) Change(ctx context.Context, c saga.Change) (saga.Record, bool, error) {
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
	switch {
	case err != nil:
		m.violation("%s was called before the plan was stored", info.Step)
	case undo && r.Turned.IsZero():
		m.violation("%s is undone, and the journal says that the saga goes on", info.Step)
	case undo:
		m.resolved(info.Step, r)
		m.ordered(info.Step)
	}
	m.mu.Unlock()
	return m.network.RoundTrip(req)
}

// spent reports whether the step of an entry has had all its tries, or its time.
func (m *monitor) spent(e saga.Entry, r saga.Record) bool {
	for _, s := range m.steps {
		if s.Name == e.Step {
			return s.Attempts > 0 && e.Tries >= s.Attempts || s.Timeout > 0 && r.Now.Sub(r.FirstClaimedAt) >= s.Timeout
		}
	}
	return false
}

// resolved notes an undo of what nobody tried to find out about.
func (m *monitor) resolved(step string, r saga.Record) {
	for _, e := range r.Entries {
		if e.Step != step || e.Undo {
			continue
		}
		if e.Pending && r.Now.Sub(r.Turned) < m.unseen && !m.spent(e, r) {
			m.violation("%s is undone before it is known how its call ended", step)
		}
		return
	}
	m.violation("%s is undone, and the journal does not know that it was called", step)
}
