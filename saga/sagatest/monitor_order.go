package sagatest

import (
	"slices"

	"github.com/fanonce/fanonce/saga"
)

// ordered notes an undo that comes before the undo of a step behind it. Behind a step are all
// steps that wait for it, also where those between them have no undo. The effects of functions
// are their own.
func (m *monitor) ordered(step string) {
	for _, s := range m.steps {
		if s.Function || s.ReadOnly || s.Irreversible || !m.behind(s, step) {
			continue
		}
		if e := m.services.Effects(s.Name); e.Done > e.Undone {
			m.violation("%s is undone before %s, which ran after it", step, s.Name)
		}
	}
}

// behind reports whether s waits for the step of that name, directly or not.
func (m *monitor) behind(s saga.StepInfo, step string) bool {
	if slices.Contains(s.After, step) {
		return true
	}
	for _, before := range m.steps {
		if slices.Contains(s.After, before.Name) && m.behind(before, step) {
			return true
		}
	}
	return false
}

// cancelled takes in that a Cancel has returned with that record. From now on only those steps
// are called that were before, or of which the journal says so.
func (m *monitor) cancelled(r saga.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun = make(map[string]bool, len(m.steps))
	for step := range m.called {
		m.begun[step] = true
	}
	for _, e := range r.Entries {
		m.begun[e.Step] = true
	}
}

// begins notes a step that begins after its saga was cancelled. Past the pivot the saga goes on,
// if the pivot was running. With CheckpointEdges an owner in another process cannot know which
// steps began, and has to find out.
func (m *monitor) begins(step string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.called[step] = true
	if m.begun != nil && !m.edges && !m.begun[step] && !m.pastPivot(step) {
		m.violation("%s begins, and Cancel had returned", step)
	}
}

func (m *monitor) pastPivot(step string) bool {
	for _, s := range m.steps {
		for _, pivot := range m.steps {
			if s.Name == step && pivot.Pivot && m.behind(s, pivot.Name) {
				return true
			}
		}
	}
	return false
}
