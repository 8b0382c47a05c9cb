package saga

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// A Signal is a value from outside that a saga waits for, under a name: an approval, a webhook, the end of a 3-D Secure
// check. The definition of the saga and who sends it share a variable that [NewSignal] made. It is a promise and no
// queue: a saga has at most one value of a name, and the first one stays. The zero Signal is refused with an [ErrSignal].
type Signal[T any] struct {
	name string
	err  error
}

// NewSignal names a signal whose value is a T. The name is "service.operation", as in [StepFunc]. It is that of the
// step that awaits the signal. A wrong name or type is reported later, by [Define] and [Signal.Send], as an [ErrSignal].
func NewSignal[T any](name string) Signal[T] {
	_, _, err := splitName(name)
	if err == nil {
		err = contract.CheckType[T]()
	}
	return Signal[T]{name, err}
}

// Name returns the signal's name.
func (s Signal[T]) Name() string { return s.name }

func (s Signal[T]) check() error {
	switch {
	case s.name == "" && s.err == nil:
		return fmt.Errorf("%w: it was not made by NewSignal", ErrSignal)
	case s.err != nil:
		return fmt.Errorf("%w: %w", ErrSignal, errtext.Inner(s.err))
	}
	return nil
}

// A Signaller takes signals for sagas: an [Engine], or an [Operator], which any process can have.
type Signaller interface {
	send(ctx context.Context, s journal.Signal, of reflect.Type) error
}

// Send stores v for the saga, under the signal's name. The saga may wait for it, or come to its [Await] later. It may even
// be started later, within [journal.SignalRetention]: [journal.IDOf] is its address, without a look-up. Whoever has the
// address can send, so take the scope in it from the caller's authentication.
//
// Nil means that the value is stored, by this call or an earlier one with the same value. The saga gets it if it gets as
// far as that step. Send can be repeated at any time, so an HTTP handler that calls it is guarded as any other. If the
// engine to waits for the value, the saga goes on at once, and else within a [Config].Poll.
//
// Two errors say that v is not stored, and never will be. [ErrSignalReused]: the saga was sent another value.
// [ErrTooLate]: its wait has ended without a value, or it goes back or is over. If v stands for something that has
// happened, such as a payment, give that back.
//
// An [ErrSignal] is for a signal that [NewSignal] refused. It is also for a saga that does not await the signal, or awaits
// another type, where to has the definition. A v that JSON cannot carry is an [ErrEncode], and a nil to is an [ErrConfig].
// After an [ErrFateUnknown] v may be stored; send it again.
func (s Signal[T]) Send(ctx context.Context, to Signaller, id journal.ID, v T) error {
	sent, err := s.Request(id, v)
	switch {
	case err != nil:
		return err
	case isNil(to):
		return field("to", errors.New("nil; use what Open or NewOperator returns"))
	}
	return to.send(ctx, sent, reflect.TypeFor[T]())
}

// Request returns what sends v: for journals that store it as part of a transaction of yours. Its errors are those
// of Send before any I/O.
func (s Signal[T]) Request(id journal.ID, v T) (journal.Signal, error) {
	if err := s.check(); err != nil {
		return journal.Signal{}, err
	}
	data, err := contract.Encode(v)
	if err == nil && len(data) > journal.MaxResultBytes {
		err = fmt.Errorf("%d bytes, at most %d", len(data), journal.MaxResultBytes)
	}
	if err != nil {
		return journal.Signal{}, fmt.Errorf("%w: signal %s: %w", ErrEncode, s.name, errtext.Inner(err))
	}
	return journal.Signal{ID: id, Name: s.name, Value: data}, nil
}

func (o *operator) send(ctx context.Context, s journal.Signal, of reflect.Type) error {
	return o.verbs.Send(ctx, s, of)
}

// An AwaitRef is a declared step that makes no call, and completes with the value of a signal. It has nothing to undo: a
// saga that goes back drops its waits.
type AwaitRef[T any] struct{ step *StepRef[struct{}, T] }

func (a *AwaitRef[T]) ref() (*graph.Draft, *graph.Step) {
	if a == nil {
		return nil, nil
	}
	return a.step.ref()
}

// Await declares a step that completes with the value that the saga is sent ([Signal.Send]), once the steps before it have
// ended. The value may have been sent long before, even before the saga began. A saga awaits a signal once.
//
//	held := saga.Step(b, Reserve, line)
//	approved := saga.Await(b, Approved).After(held).Timeout(48 * time.Hour) // nobody decides: held is undone
//	saga.Step(b, Charge, saga.Map2(b.Input(), approved.Output(), withApproval))
//
// Without [AwaitRef.Timeout] it waits without a limit. A saga that only waits is held by no process, and an engine
// of any later build with the definition goes on with it. The wait counts in [Builder.Timeout], and [Operator.Cancel]
// ends it, as both do for a [Sleep]. Past the pivot a wait with a Timeout must be Optional, because the saga cannot go back.
// [Builder.UndoBudget] begins anew when such a wait ends.
//
// If the value has a member that T lacks, the saga is left to a newer build. If the value cannot be read as a T, for
// example because an operator wrote it by hand, the step fails.
func Await[SagaIn, SagaOut, T any](b *Builder[SagaIn, SagaOut], sig Signal[T]) *AwaitRef[T] {
	if err := sig.check(); err != nil {
		b.draft.Problem(err)
	}
	service, operation, _ := splitName(sig.name)
	s := declare[struct{}, T](b.draft, graph.Address{Service: service, Operation: operation, Shape: graph.AwaitSignal}, Const(b, struct{}{}).node)
	s.step.Of = reflect.TypeFor[T]()
	b.draft.Later(func() {
		if s.step.Optional && s.step.Wait == 0 {
			b.draft.Problem(fmt.Errorf("step %s: it is Optional without a Timeout: it waits for as long as it takes", s.step.Name))
		}
	})
	return &AwaitRef[T]{s}
}

// After makes the wait begin once the others have ended. A value that was sent before counts.
func (a *AwaitRef[T]) After(steps ...AnyStep) *AwaitRef[T] {
	a.step.After(steps...)
	return a
}

// When makes the saga wait only if v is true, as [StepRef.When]. A value that is sent for a wait that was skipped is not used.
func (a *AwaitRef[T]) When(v Value[bool]) *AwaitRef[T] {
	a.step.When(v)
	return a
}

// Timeout ends the wait that long after the steps before it have ended, by the journal's clock. The step has failed then
// ([ErrTimeout]), or is skipped if it is Optional. A value and the end of the time cannot both count: once Send has returned
// nil the time no longer ends the wait, and after the end Send returns [ErrTooLate]. No crash or verb makes the time longer.
func (a *AwaitRef[T]) Timeout(d time.Duration) *AwaitRef[T] {
	a.step.draft.Duration("step "+a.step.step.Name+": Timeout", d)
	a.step.step.Wait = d
	return a
}

// Optional makes the saga go on without the value if nobody sends it before the Timeout. The step is skipped then, as
// after [StepRef.When].
func (a *AwaitRef[T]) Optional() *AwaitRef[T] {
	a.step.Optional()
	return a
}

// Output is the value that the saga was sent.
func (a *AwaitRef[T]) Output() Value[T] { return a.step.Output() }

// Or is the value that the saga was sent, or v if the step was skipped.
func (a *AwaitRef[T]) Or(v Value[T]) Value[T] { return a.step.Or(v) }

// An Awaited is a signal that a saga waits for.
type Awaited struct {
	Signal string
	Since  time.Time // when the steps before it had ended
	// Until is when the wait ends. It is zero without a Timeout. It is also zero while a call of the saga runs, if steps do
	// not have the Timeout: the journal does not have it then.
	Until time.Time
}

// AwaitedBy returns the signals that the saga in r waits for, for people who ask where it is. steps are those of its plan:
// [Definition.Steps] or [PlanSteps]. It does no I/O.
func AwaitedBy(r journal.Record, steps []StepInfo) (all []Awaited) {
	forward := make(map[string]*journal.Entry)
	for i := range r.Entries {
		if e := &r.Entries[i]; !e.Undo {
			forward[e.Step] = e
		}
	}
	for _, s := range steps {
		if !s.IsAwait() || r.Status != journal.Running || r.FirstClaimedAt.IsZero() {
			continue
		}
		own, waits := forward[s.Name], true
		w := Awaited{Signal: s.Name, Since: r.FirstClaimedAt}
		for _, name := range s.After {
			before := forward[name]
			if waits = waits && before != nil && isPassed(before); waits && before.At.After(w.Since) {
				w.Since = before.At
			}
		}
		if own != nil && own.IsAsleep() {
			if own.RetryAt.Sub(w.Since) < MaxDuration/2 {
				w.Until = own.RetryAt
			}
		} else if own != nil || !waits || s.Conditional {
			continue
		} else if s.Timeout > 0 {
			w.Until = w.Since.Add(s.Timeout)
		}
		all = append(all, w)
	}
	return all
}

// isPassed reports whether the steps behind that of the entry may begin.
func isPassed(e *journal.Entry) bool {
	return e.Skipped || !e.Pending && e.Outcome == retry.Completed
}

// ReadOutput returns the value in the saga of r, as [StepRef.ReadOutput] does.
func (a *AwaitRef[T]) ReadOutput(r journal.Record) (value T, done bool, err error) {
	return a.step.ReadOutput(r)
}
