package saga

import (
	"context"

	"github.com/fanonce/fanonce/saga/journal"
)

// Retry sets a stuck saga going again, in the direction that it had: what failed
// is tried anew, under the same keys, with new budgets of time. Like all verbs
// it takes effect only on the saga as it stands, or as the actor saw it
// ([journal.Audit].Revision), and is in the audit log with actor and reason.
//
// A callee that stored a refusal repeats it under the same key: no handler runs, and the saga is
// stuck again. So Retry cannot finish an undo that its service refused with a stored 4xx. Do by
// hand what the undo should have done, and call [Operator.ForceUndone]. An undo handler that a
// person can help answers 5xx or 429 instead: guards store neither.
//
// The verbs' errors are [ErrReasonRequired], [ErrConflict], [journal.ErrNotFound],
// [ErrNoStep], and [ErrNoDefinition] where they must know the saga's plan and neither a definition
// nor the journal has it. It is an [journal.ErrCorrupt] if the saga or its plan cannot be read, but
// with [Operator.Abandon]. They
// return the saga as it is then. After another error look again: whether the
// verb took effect is in the record and in the audit log.
//
// A call that may have been sent is not sent again once its callee may have forgotten it, by default a week after the
// first attempt: then the saga is stuck again, and StuckOn has the code key-expired. Find out what the call did, and say so by
// [Engine.ForceOK], [Engine.ForceRejected] or [Engine.ForceUndone]. A call that was never sent is sent at any age.
//
// Retry needs no definition. Without one the saga gets [DefaultUndoBudget] as its new time.
func (o *operator) Retry(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
	return o.verbs.Retry(ctx, id, by)
}

// RetryNow makes a saga retry its waiting calls at once. Use it when the callee is back and the
// backoff still runs. It takes effect within a lease, in whatever process the saga waits. An engine claims a saga that waits
// in the journal, and reads a saga that waits in its memory once per [Config].Lease. A shorter wait in memory ends by itself.
// The saga keeps its owner, its attempts and its times. Running calls continue.
//
// It is an [ErrConflict] if the saga is not running or compensating, or if no call of it waits. A
// wait of at most a second is not in the journal, and does not count. RetryNow needs no
// definition. Its other errors are those of [Operator.Retry]. The returned record is without
// pending waits.
func (o *operator) RetryNow(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
	return o.verbs.RetryNow(ctx, id, by)
}

// ForceOK says that a step of a stuck saga took effect, and gives its output. A person has found that
// out, or did it by hand. output must be of the type that the step returns. The saga goes on as after
// [Operator.Retry].
//
// ForceOK needs the saga's definition, else it returns [ErrNoDefinition]: the plan in a journal has
// no types. With an output of another type no engine could go on.
func (o *operator) ForceOK(ctx context.Context, id journal.ID, step string, output any, by journal.Audit) (journal.Record, error) {
	return o.verbs.ForceOK(ctx, id, step, output, by)
}

// ForceRejected says that a step's call did not happen and will not: a person found out that the
// callee never took the call, or does not have its effect. The step counts as rejected. A stuck
// saga that went forward therefore goes back, and undoes its other steps; one that goes back does
// not undo this one. A saga that goes forward skips an Optional step, also past its pivot. Otherwise the saga goes on as
// after [Operator.Retry].
//
// The caller guarantees that no late copy of the call takes effect. The saga must be stuck. The
// error is an [ErrConflict] if the call completed or was never begun, or if the step is undone
// already. It is also an [ErrConflict] if the saga is past its pivot, where it cannot go back, and the step is not Optional.
// The error for a record that cannot be read is a [journal.ErrCorrupt].
func (o *operator) ForceRejected(ctx context.Context, id journal.ID, step string, by journal.Audit) (journal.Record, error) {
	return o.verbs.ForceRejected(ctx, id, step, by)
}

// ForceUndone says that nothing is left of a step of a stuck saga that goes
// back: somebody undid it by hand, or accepts what is left. The saga goes on as
// after [Operator.Retry].
func (o *operator) ForceUndone(ctx context.Context, id journal.ID, step string, by journal.Audit) (journal.Record, error) {
	return o.verbs.ForceUndone(ctx, id, step, by)
}

// Cancel has a saga compensated. When Cancel returns, the execution that it found begins no
// further step or attempt. Calls that are running go on. The next owner waits for them, and undoes
// what they did. If their process died it sends them again first, to find that out. So a charge that
// had not arrived yet may be made, and is then undone. If the pivot has begun, or a step behind it, the saga may be
// past the point where it could be undone: the error is an [ErrConflict], and nothing changes.
//
// Where another process executes the saga, Cancel waits for a second until that process
// knows. So it does where this process has started or claimed the saga a moment ago. This holds as
// long as the journal answers that process within a second. If ctx ends meanwhile, Cancel returns
// the ctx's error, and the saga is cancelled all the same.
func (o *operator) Cancel(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
	return o.verbs.Cancel(ctx, id, by)
}

// Signal sends a saga that is there a value in a person's name, as [Signal.Send] does: what should have sent it is lost. The audit log has the
// line, with the signal's name as its step. value is a value of the type that the saga awaits, or JSON as a [json.RawMessage]. Its type is
// checked if the saga's definition is known here.
//
// Its further errors are those of Send. A repeat with the same value returns nil, and writes no line.
func (o *operator) Signal(ctx context.Context, id journal.ID, name string, value any, by journal.Audit) (journal.Record, error) {
	return o.verbs.Signal(ctx, id, name, value, by)
}

// Abandon ends a saga where it stands: nothing more is done and nothing undone,
// whatever that leaves behind. When Abandon returns, the execution that it found begins no
// further call, as after [Operator.Cancel]. Calls that are running are not stopped.
func (o *operator) Abandon(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
	return o.verbs.Abandon(ctx, id, by)
}
