package saga

import (
	"github.com/fanonce/fanonce/saga/internal/engine"
	"github.com/fanonce/fanonce/saga/journal"
)

// A PlanStep is a step as a journal keeps it. [PlanSteps] makes it, for drawings of a plan.
type PlanStep struct {
	Name      string // of its entries: "service.operation", with discriminators in brackets
	Operation string // method and path of the call; "function": it is a [StepFunc]
	Undo      string // the name of its undo; "": none

	Pivot, Retriable, ReadOnly, Irreversible bool

	After []string // the names of the steps that it waits for
}

// PlanSteps returns the steps of a plan that a journal keeps, in the order of their declaration. It
// needs no definition. It does no I/O.
//
// The error wraps [ErrCorrupt] if the lines of the record do not have its hash. It wraps [ErrNewer]
// if a newer build has written a line that this build cannot read.
func PlanSteps(r journal.PlanRecord) ([]PlanStep, error) {
	p, err := engine.ParsePlan(r)
	if err != nil {
		return nil, err
	}
	steps := make([]PlanStep, len(p.Steps))
	for i, s := range p.Steps {
		steps[i] = PlanStep{
			Name: s.Name, Operation: s.Address.Shape,
			Pivot: s.IsPivot, Retriable: s.Retriable, ReadOnly: s.ReadOnly, Irreversible: s.Irreversible,
		}
		if s.Undo != nil {
			steps[i].Undo = s.Undo.Name()
		}
		for _, b := range s.Before {
			steps[i].After = append(steps[i].After, p.Steps[b].Name)
		}
	}
	return steps, nil
}
