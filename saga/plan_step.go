package saga

import (
	"time"

	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// A StepInfo is a step of a plan. [Definition.Steps] returns the steps as they were declared, and
// [PlanSteps] as a journal keeps them.
type StepInfo struct {
	Name                                     string // of its entries: "service.operation", with discriminators in brackets
	Service, Operation                       string
	Shape                                    string // method and path of the call; "function": it is a [StepFunc]; "sleep" or "sleep-until": a sleep; "await": an [Await]
	Undo                                     string // the name of its undo; "": none
	Pivot, Retriable, ReadOnly, Irreversible bool
	Optional                                 bool     // see [StepRef.Optional]
	Conditional                              bool     // it can be skipped before it begins: see [StepRef.When]
	Each                                     bool     // it is an [Each], which makes no call itself
	Of                                       string   // of an item of an Each: the Each's name
	After                                    []string // the names of the steps that it waits for
	// Attempts is how often the call is tried at most, by its [RetryPolicy]; 0: as often as
	// time allows.
	Attempts   int
	Timeout    time.Duration // of the step or await; 0: none
	ZeroOutput []byte        // the zero value of its output, as JSON
}

// IsFunction reports whether the step is a [StepFunc].
func (s StepInfo) IsFunction() bool { return s.Shape == graph.Function }

// IsSleep reports whether the step is a [Sleep] or [SleepUntil]: it makes no call.
func (s StepInfo) IsSleep() bool { return graph.Address{Shape: s.Shape}.MakesNoCall() && !s.IsAwait() }

// IsAwait reports whether the step is an [Await]: it makes no call. Its name is that of the signal.
func (s StepInfo) IsAwait() bool { return s.Shape == graph.AwaitSignal }

// PlanSteps returns the steps of a plan that a journal keeps, in the order of their declaration. It
// needs no definition. It does no I/O. A journal keeps neither times nor types: Attempts, Timeout
// and ZeroOutput are zero. A service with dots in its name may come back split elsewhere.
//
// The error wraps [ErrCorrupt] if the lines of the record do not have its hash. It wraps [ErrNewer]
// if a newer build has written a line that this build cannot read.
func PlanSteps(r journal.PlanRecord) ([]StepInfo, error) {
	p, err := graph.ParsePlan(r)
	if err != nil {
		return nil, err
	}
	return stepInfosOf(p), nil
}

// RecordSteps is [PlanSteps] with the items of the saga in r: those of an [Each] are behind it. A record of
// a [journal.Reader] names the items that it has entries of, in the order of these. The error is an [ErrCorrupt],
// too, if the items in r cannot be those of plan.
func RecordSteps(plan journal.PlanRecord, r journal.Record) ([]StepInfo, error) {
	p, err := graph.ParsePlan(plan)
	if err != nil {
		return nil, err
	}
	steps := len(p.Steps)
	if p, err = p.WithShownItems(r.Entries); err != nil {
		return nil, err
	}
	all := stepInfosOf(p)
	infos := make([]StepInfo, 0, len(all))
	for i, s := range p.Steps[:steps] {
		infos = append(infos, all[i])
		for _, item := range s.Items {
			infos = append(infos, all[item])
		}
	}
	return infos, nil
}

// stepInfosOf returns what a journal keeps of each step.
func stepInfosOf(p *graph.Plan) []StepInfo {
	infos := make([]StepInfo, len(p.Steps))
	for i, s := range p.Steps {
		infos[i] = StepInfo{
			Name: s.Name, Service: s.Address.Service, Operation: s.Address.Operation, Shape: s.Address.Shape,
			Pivot: s.IsPivot, Retriable: s.Retriable, ReadOnly: s.ReadOnly, Irreversible: s.Irreversible,
			Optional: s.Optional, Conditional: s.Conditional, Each: s.IsEach, Of: s.Each,
		}
		if s.Undo != nil {
			infos[i].Undo = s.Undo.Name()
		}
		for _, b := range s.Before {
			infos[i].After = append(infos[i].After, p.Steps[b].Name)
		}
	}
	return infos
}
