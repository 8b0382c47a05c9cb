package saga

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga/internal/engine"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// An Operator lists, shows and moves sagas on behalf of people: for a command line, a
// console or a job. It executes no saga. So it needs no client and no lease, runs no
// goroutine, and need not be closed. If a verb sets a saga going, an [Engine] executes it, in
// whatever process. Make an Operator with [NewOperator]; an Engine has the same methods. Its verbs:
//
//	                the saga is               the person says
//	Retry           stuck                     try again what failed
//	ForceOK         stuck                     the step took effect, with this output
//	ForceRejected   stuck                     the step did not take effect, and never will
//	ForceUndone     stuck, on its way back    nothing is left of the step
//	RetryNow        running, compensating     do not wait before the next attempt
//	Signal          not over                  it was sent this value
//	Cancel          running, or stuck,        undo everything
//	                before its pivot
//	Abandon         not over                  leave everything as it is
//	Migrate         running, or stuck on      go on by another version of the definition
//	                its way forward
//
// It is safe for concurrent use.
type Operator struct{ operator }

// NewOperator returns an operator of the sagas in journal. It does no I/O.
//
// The definitions are those of the sagas that people move on. Only [Operator.ForceOK] needs that of
// its saga, because it checks the type of an output. Without the definition [Operator.ForceUndone],
// [Operator.ForceRejected] and [Operator.Cancel] read the plan that the journal keeps. The saga
// then gets [DefaultUndoBudget] as its new time. The other methods need no plan. A saga that was
// started under another plan than that of its definition here counts as one without a definition.
//
// A saga that the operator abandons is kept for [DefaultKeep]; see [Operator.WithKeep].
//
// The error is an [ErrConfig] if the journal is nil, or if a definition is nil or was not made by
// [Define]. It is also an [ErrConfig] if two definitions have the same name and version.
func NewOperator(j journal.Journal, definitions ...AnyDefinition) (*Operator, error) {
	if isNil(j) {
		return nil, field("journal", errors.New("nil"))
	}
	plans, err := plansOf(definitions)
	if err != nil {
		return nil, err
	}
	return &Operator{operator{engine.NewOperator(j, plans, DefaultKeep)}}, nil
}

// isNil reports whether a journal or an engine is nil, or a nil pointer in an interface. Such a pointer
// comes of an overlooked error. It would panic in the middle of a saga.
func isNil(of any) bool {
	v := reflect.ValueOf(of)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// An operator is what an [Operator] and an [Engine] have in common.
type operator struct{ verbs *engine.Operator }

// plansOf returns the plans of the definitions, each once.
func plansOf(definitions []AnyDefinition) ([]*graph.Plan, error) {
	var plans []*graph.Plan
	for i, d := range definitions {
		if d == nil || d.enginePlan() == nil {
			return nil, field("Definitions", fmt.Errorf("number %d is nil or was not made by Define", i+1))
		}
		p := d.enginePlan()
		for _, other := range plans {
			if other.Name == p.Name && other.Version == p.Version && other != p {
				return nil, field("Definitions", fmt.Errorf("%s version %d is there twice", p.Name, p.Version))
			}
		}
		if !slices.Contains(plans, p) {
			plans = append(plans, p)
		}
	}
	return plans, nil
}

// WithKeep returns an operator like o that keeps what it abandons for that long; see
// [Config].Keep. It is for services whose engines keep sagas for another time than
// [DefaultKeep]: once a saga is swept, its key can start it again.
//
// The error is an [ErrConfig] if keep is not positive, or longer than [MaxDuration].
func (o *Operator) WithKeep(keep time.Duration) (*Operator, error) {
	switch {
	case keep <= 0:
		return nil, field("Keep", fmt.Errorf("%v is not positive", keep))
	case keep > MaxDuration:
		return nil, field("Keep", graph.TooLong(keep))
	}
	return &Operator{operator{o.verbs.WithKeep(keep)}}, nil
}

// Lookup returns what the journal knows of the saga, or [journal.ErrNotFound].
func (o *operator) Lookup(ctx context.Context, id journal.ID) (journal.Record, error) {
	return o.verbs.Lookup(ctx, id)
}

// HasDefinition reports whether the definition with that plan is known here: [Operator.ForceOK] needs it. It does no
// I/O.
func (o *operator) HasDefinition(plan journal.PlanHash) bool { return o.verbs.HasPlan(plan) }

// Reader shows the sagas: lists of them, one with its entries, and who moved it. It is that of the journal.
func (o *operator) Reader() journal.Reader { return o.verbs.Reader() }

// Stats counts the sagas; see [journal.Journal].
func (o *operator) Stats(ctx context.Context) (journal.Stats, error) {
	return o.verbs.Stats(ctx)
}

// Sweep deletes at most limit sagas that are final and past their ExpiresAt, and returns how
// many. It suits a job that runs from time to time, and calls it again at once if it
// returns limit. In a service, let [Engine.RunSweeper] do it.
func (o *operator) Sweep(ctx context.Context, limit int) (int, error) {
	return o.verbs.Sweep(ctx, limit)
}
