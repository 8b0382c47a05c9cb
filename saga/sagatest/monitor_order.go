package sagatest

import (
	"slices"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// checkOrder notes an undo that comes before the undo of a later step. The later steps of a step are
// all steps that wait for it, even if steps between them lack an undo. The effects of functions
// are not checked.
func (m *monitor) checkOrder(step string) {
	for _, s := range m.steps {
		if !isCall(s) || s.ReadOnly || s.Irreversible || !m.isBehind(s, step) {
			continue
		}
		if effects := m.services.Effects(s.Name); effects.Done > effects.Undone {
			m.note("%s is undone before %s, which ran after it", step, s.Name)
		}
	}
}

// isBehind reports whether s waits for the step of that name, directly or through other steps.
func (m *monitor) isBehind(s saga.StepInfo, step string) bool {
	if slices.Contains(s.After, step) {
		return true
	}
	for _, before := range m.steps {
		if slices.Contains(s.After, before.Name) && m.isBehind(before, step) {
			return true
		}
	}
	return false
}

// recordCancel records that a Cancel has returned with that record. From now on a process may call
// only steps that were called before, or steps that the journal has as called.
func (m *monitor) recordCancel(r journal.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun, m.completed = make(map[string]bool, len(m.steps)), make(map[string]bool, len(m.steps))
	if r.Clean && r.Fence > 1 {
		m.woken = time.Now()
	}
	for step := range m.called {
		m.begun[step] = true
	}
	for _, e := range r.Entries {
		m.begun[e.Step] = true
		m.completed[e.Step] = m.completed[e.Step] || !e.Undo && !e.Pending && (e.Outcome == retry.Completed || e.Skipped)
	}
}

// checkBegin notes a step that begins after its saga was cancelled. Past the pivot the saga goes on,
// if the pivot was running. The next owner resumes the steps that may have begun: it has to find
// out about them.
func (m *monitor) checkBegin(step string, resumed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.called[step] = true
	if m.begun != nil && !m.begun[step] && !m.isPastPivot(step) && !(resumed && m.mayHaveBegun(step)) {
		m.note("%s begins, and Cancel had returned", step)
	}
}

// mayHaveBegun reports whether the step may have begun, as far as the journal could tell when Cancel
// returned.
func (m *monitor) mayHaveBegun(step string) bool {
	for _, s := range m.steps {
		if s.Name == step {
			return !slices.ContainsFunc(s.After, func(before string) bool { return !m.completed[before] })
		}
	}
	return false
}

func (m *monitor) isPastPivot(step string) bool {
	for _, s := range m.steps {
		for _, pivot := range m.steps {
			if s.Name == step && pivot.Pivot && m.isBehind(s, pivot.Name) {
				return true
			}
		}
	}
	return false
}
