package sagatest

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// playWell finds out which steps are skipped when all goes well, if any can be.
func (e *explorer) playWell(t *testing.T) {
	if !slices.ContainsFunc(e.steps, func(s saga.StepInfo) bool { return s.Conditional }) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		if o := e.play(t.Context(), scenario{name: "all goes well"}); o.status == journal.Completed {
			e.skipped = o.skipped
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
