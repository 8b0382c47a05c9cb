package saga

import (
	"fmt"
	"time"

	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// A SleepRef is a declared step that makes no call, and ends by time alone. It has nothing to undo: a saga that goes back
// drops its sleeps. Steps that wait for it name it in [StepRef.After].
type SleepRef struct{ step *StepRef[struct{}, struct{}] }

func (s *SleepRef) ref() (*graph.Draft, *graph.Step) {
	if s == nil {
		return nil, nil
	}
	return s.step.ref()
}

// After makes the sleep begin once the others have ended.
func (s *SleepRef) After(steps ...AnyStep) *SleepRef {
	s.step.After(steps...)
	return s
}

// Sleep declares a step that ends d after the steps before it have ended. Without any it counts from when the first engine
// got the saga. The name is "service.operation", as in [StepFunc].
//
// A saga that only sleeps for longer than [Config].Lease is held by no process, and an engine of any later build with
// the definition goes on with it. Its time is in the journal: no crash or verb makes it longer, and
// [Operator.RetryNow] does not end it. It counts in [Builder.Timeout], which fails a saga that sleeps beyond it. Past
// the pivot [Builder.UndoBudget] begins anew when it ends. Beside a step that runs it waits in memory. [Operator.Cancel]
// works at once: a saga can be undone while it sleeps, unless a step that cannot be undone may have run before. A
// journal's clock that goes back while a process has the saga makes the sleep as much longer.
//
// A d of 0 ends at once. A d below 0 or above [MaxDuration] is refused, as a call is that its callee refuses: by [Define]
// if it is a constant, and else as soon as the saga knows it. Without an effect before it, the saga is then compensated
// before its first call.
func Sleep[SagaIn, SagaOut any](b *Builder[SagaIn, SagaOut], name string, d Value[time.Duration]) *SleepRef {
	return declareSleep(b.draft, name, graph.SleepFor, d.node)
}

// SleepUntil declares a step that ends at a time, by the journal's clock. A time that is over ends it at once. It is
// otherwise as [Sleep]. The zero Time is refused, and one more than [MaxDuration] ahead.
func SleepUntil[SagaIn, SagaOut any](b *Builder[SagaIn, SagaOut], name string, at Value[time.Time]) *SleepRef {
	return declareSleep(b.draft, name, graph.SleepUntil, at.node)
}

func declareSleep(d *graph.Draft, name, shape string, in *graph.Node) *SleepRef {
	service, operation, err := splitName(name)
	if err != nil {
		d.Problem(err)
	}
	s := declare[struct{}, struct{}](d, graph.Address{Service: service, Operation: operation, Shape: shape}, in)
	if in != nil && !in.Input && len(in.Needs) == 0 {
		err := graph.Guarded(func() error { return graph.CheckSleep(in.Eval(new(graph.Facts)), time.Now()) })
		if err != nil {
			d.Problem(fmt.Errorf("step %s: %w", name, err))
		}
	}
	return &SleepRef{s}
}

// StartAt makes a new saga begin at that time, by the journal's clock, in any process with its definition: before that
// no engine gets the saga. [Definition.Start] returns at once, and [Definition.Run] waits. All times of the saga count from then
// on, and [Operator.Cancel] works before. A time that is over, or zero, begins it at once. A saga that is there
// already keeps its own time. A time more than [MaxDuration] ahead is an [ErrConfig].
func StartAt(at time.Time) RunOption { return func(r *journal.StartRequest) { r.At = at } }
