package sagatest

import (
	"context"
	"slices"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// setBack is how far a clock goes back, and atOnce the longest delay of what is to happen at a time: engines are killed, and
// paused for longer than a lease.
const setBack, atOnce = 4 * time.Hour, time.Hour

// isCall reports whether the effects of the step are counted: it is a single call.
func isCall(s saga.StepInfo) bool {
	return !s.IsFunction() && !s.IsSleep() && !s.IsAwait() && !s.Each
}

// checkSleeps notes what a write says of the saga's sleeps, and should not: another end than before, or that one ended
// before its time or long after.
func (m *monitor) checkSleeps(now time.Time, w journal.Write) {
	slack, late := m.slackOfSleeps(), atOnce
	if m.turned {
		late += m.slack
	}
	for _, e := range w.Entries {
		i := slices.IndexFunc(m.steps, func(s saga.StepInfo) bool { return s.Name == e.Step && (s.IsSleep() || s.IsAwait()) })
		if i < 0 || !e.Pending && m.steps[i].IsAwait() {
			continue
		}
		first, known := m.sleepEnds[e.Step]
		switch {
		case e.Pending:
			ends := time.Now().Add(e.RetryAt.Sub(now))
			if known && ends.Sub(first).Abs() > slack {
				m.note("%s is to end %v later than it was", e.Step, ends.Sub(first))
			}
			if !known {
				m.sleepEnds[e.Step] = ends
			}
		case e.Outcome != retry.Completed || !known:
		case time.Now().Before(first.Add(-slack)):
			m.note("%s ended %v before its time", e.Step, time.Until(first))
		case time.Since(first) > late && !m.retried:
			m.note("%s ended %v after its time", e.Step, time.Since(first))
		}
	}
}

// slackOfSleeps is by how much the end of a sleep may move.
func (m *monitor) slackOfSleeps() time.Duration {
	if m.turned {
		return m.slack
	}
	return time.Second
}

// checkSlept notes a call that begins although the journal does not say that a sleep before it has ended.
func (m *monitor) checkSlept(step string, r journal.Record) {
	for _, s := range m.steps {
		if s.Name != step {
			continue
		}
		for _, sleep := range m.steps {
			if (sleep.IsSleep() || sleep.IsAwait()) && slices.Contains(s.After, sleep.Name) && !isPassed(r, sleep.Name) {
				m.note("%s begins, and the journal does not say that %s has ended", step, sleep.Name)
			}
		}
	}
}

// isPassed reports whether the journal says that the step has completed, or was skipped.
func isPassed(r journal.Record, step string) bool {
	return slices.ContainsFunc(r.Entries, func(e journal.Entry) bool {
		return e.Step == step && !e.Undo && (!e.Pending && e.Outcome == retry.Completed || e.Skipped)
	})
}

// checkWoken notes a saga that slept when it was cancelled, and that goes back much later.
func (m *monitor) checkWoken(w journal.Write) {
	if w.Status == journal.Compensating && !m.woken.IsZero() && time.Since(m.woken) > atOnce {
		m.note("the saga goes back %v after it was cancelled, and it slept", time.Since(m.woken))
	}
}

// turnClock says that the journal's clock goes back now. The owner of a saga does not notice, and its sleeps may end as
// much later. A saga that sleeps loses no more than the time that it has slept.
func (m *monitor) turnClock(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turned, m.slack = true, setBack+atOnce
	if r, err := m.Read(ctx, m.id); err == nil && r.Clean {
		m.slack = atOnce
	}
}
