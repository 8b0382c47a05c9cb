package sagatest

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// playWell finds out which steps are skipped when all goes well, and which items each Each has.
func (e *explorer) playWell(t *testing.T) {
	if !slices.ContainsFunc(e.steps, func(s saga.StepInfo) bool { return s.Conditional || s.Each }) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		for {
			o := e.inBubble(t.Context(), scenario{name: "all goes well"}) // which is played and reported later
			if o.status == journal.Completed {
				e.skipped = skippedOf(o.record)
			}
			if !e.learnItems(o.record) {
				return
			}
		}
	})
}

// checkSkips notes steps of a completed saga that were skipped, and are not when all goes well, or the other way round.
// After an optional step was refused, other steps may lack what they need.
func (e *explorer) checkSkips(note func(string, ...any), r journal.Record) {
	skipped := skippedOf(r)
	for _, step := range e.steps {
		if step.Optional && skipped[step.Name] {
			return
		}
	}
	if r.Status == journal.Completed && e.skipped != nil && !maps.Equal(skipped, e.skipped) {
		note("the saga skipped %v, and %v when all goes well", slices.Sorted(maps.Keys(skipped)), slices.Sorted(maps.Keys(e.skipped)))
	}
}

func skippedOf(r journal.Record) map[string]bool {
	skipped := make(map[string]bool)
	for _, e := range r.Entries {
		if e.Skipped {
			skipped[e.Step] = true
		}
	}
	return skipped
}

func isSkipped(r journal.Record, step string) bool { return skippedOf(r)[step] }
