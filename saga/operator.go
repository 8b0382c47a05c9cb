package saga

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// An Operator lists, shows and moves sagas on behalf of people: for a command line, a
// console or a job. It drives no saga. So it needs no client and no lease, runs no
// goroutine, and need not be closed. What a verb sets going, an [Engine] drives, in
// whatever process. Make an Operator with [NewOperator]; an Engine has the same methods.
//
// It is safe for concurrent use.
type Operator struct{ operator }

// NewOperator returns an operator of the sagas in journal. It does no I/O.
//
// The definitions are those of the sagas that people move on: [Operator.ForceOK],
// [Operator.ForceUndone], [Operator.ForceRejected] and [Operator.Cancel] need that of their saga.
// The other methods need none. A saga that was started under another plan than that of its
// definition here counts as one without a definition.
//
// The error is an [ErrConfig] if the journal is nil, if a definition is nil or was not made
// by [Define], or if two of them have the same name and version.
func NewOperator(journal Journal, definitions ...AnyDefinition) (*Operator, error) {
	if isNil(journal) {
		return nil, field("journal", errors.New("nil"))
	}
	o := &Operator{operator{journal: journal, keep: DefaultKeep, onChange: outwait}}
	if _, err := o.take(definitions); err != nil {
		return nil, err
	}
	return o, nil
}

// isNil reports whether the journal is nil, or a nil pointer in an interface: that comes of
// an error that was overlooked, and would panic in the middle of a saga.
func isNil(journal Journal) bool {
	v := reflect.ValueOf(journal)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// An operator is what an [Operator] and an [Engine] have in common.
type operator struct {
	journal  Journal
	plans    map[PlanHash]*plan
	keep     time.Duration // of sagas that a verb ends
	observer observers
	// onChange is told of each saga that a verb has changed. It returns when the execution
	// that had the saga begins no further call, or with the error of ctx.
	onChange func(ctx context.Context, was, now Record) error
}

// take takes the definitions in, and returns their plans, each once.
func (o *operator) take(definitions []AnyDefinition) ([]*plan, error) {
	o.plans = make(map[PlanHash]*plan, len(definitions))
	var plans []*plan
	for i, d := range definitions {
		if d == nil || d.planned() == nil {
			return nil, field("Definitions", fmt.Errorf("number %d is nil or was not made by Define", i+1))
		}
		p := d.planned()
		for _, other := range plans {
			if other.name == p.name && other.version == p.version && other != p {
				return nil, field("Definitions", fmt.Errorf("%s version %d is there twice", p.name, p.version))
			}
		}
		if o.plans[p.record.Hash] == nil {
			o.plans[p.record.Hash] = p
			plans = append(plans, p)
		}
	}
	return plans, nil
}

// Lookup returns what the journal knows of the saga, or [ErrNotFound].
func (o *operator) Lookup(ctx context.Context, id ID) (Record, error) { return o.journal.Read(ctx, id) }

// List returns the sagas that match; see [OperatorJournal].
func (o *operator) List(ctx context.Context, req ListRequest) ([]Record, error) {
	return o.journal.List(ctx, req)
}

// Stats counts the sagas; see [Journal].
func (o *operator) Stats(ctx context.Context) (Stats, error) { return o.journal.Stats(ctx) }

// AuditLog returns who did what to the saga, the youngest first; to any, if id
// is the zero ID.
func (o *operator) AuditLog(ctx context.Context, id ID, limit int) ([]AuditEntry, error) {
	return o.journal.AuditLog(ctx, id, limit)
}

// Sweep deletes at most limit sagas that are final and past their ExpiresAt, and returns how
// many. It suits a job that runs from time to time, and calls it again at once if it
// returns limit. In a service, let [Engine.RunSweeper] do it.
func (o *operator) Sweep(ctx context.Context, limit int) (int, error) {
	return o.journal.Sweep(ctx, limit)
}
