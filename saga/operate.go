package saga

import (
	"context"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
)

// Retry sets a stuck saga going again, in the direction that it had: what failed
// is tried anew, under the same keys, with new budgets of time. Like all verbs
// it takes effect only on the saga as it stands, or as the actor saw it
// ([Audit].Revision), and is in the audit log with actor and reason.
//
// The verbs' errors are [ErrReasonRequired], [ErrConflict], [ErrNotFound],
// [ErrNoStep], and [ErrNoDefinition] where they must know the saga's plan. They
// return the saga as it is then. After another error look again: whether the
// verb took effect is in the record and in the audit log.
//
// Retry needs no definition. Without one the saga gets [DefaultUndoBudget] as its new time.
func (o *operator) Retry(ctx context.Context, id ID, by Audit) (Record, error) {
	by.Verb = VerbRetry
	return o.operate(ctx, id, by, func(r Record) (Change, error) {
		if r.Status != Stuck {
			return Change{}, wrong(r, "only a stuck saga can be retried")
		}
		return o.again(r, r.Entries), nil
	})
}

// ForceOK says that a step of a stuck saga took effect, and what it returned:
// somebody found out, or did it by hand. output must be what the step returns.
// The saga goes on as after [Operator.Retry].
func (o *operator) ForceOK(ctx context.Context, id ID, step string, output any, by Audit) (Record, error) {
	by.Verb, by.Step = VerbForceOK, step
	return o.operate(ctx, id, by, func(r Record) (Change, error) {
		s, err := o.stepOf(r, step)
		if err != nil {
			return Change{}, err
		}
		entry := find(r.Entries, step, false)
		switch {
		case r.Status != Stuck:
			return Change{}, wrong(r, "only a stuck saga's steps can be forced")
		case !entry.Pending && entry.Outcome == retry.Completed && entry.Result != nil:
			return Change{}, wrong(r, step+" completed by itself")
		}
		data, err := contract.Encode(output)
		if err == nil {
			err = s.output.check(data)
		}
		if err != nil {
			return Change{}, fmt.Errorf("%w: output of %s: %w", ErrEncode, step, err)
		}
		return o.again(r, forced(r.Entries, Entry{
			Step: step, Outcome: retry.Completed, Tries: entry.Tries, At: r.Now, Result: data, Forced: by.Actor,
		})), nil
	})
}

// ForceRejected says that a step's call did not happen and will not: somebody found out that
// the callee never took it, or does not have its effect. The step counts as one that was
// rejected. A stuck saga that went forward therefore goes back, and undoes its other steps; one that
// goes back does not undo this one. Otherwise the saga goes on as after [Operator.Retry].
//
// The caller vouches that no late copy of the call takes effect. The saga must be stuck. It is
// an [ErrConflict] if the call completed or was never begun, if the step is undone already, or if the
// saga is past its pivot, where it cannot go back. A record that cannot be read is an
// [ErrCorrupt].
func (o *operator) ForceRejected(ctx context.Context, id ID, step string, by Audit) (Record, error) {
	by.Verb, by.Step = VerbForceRejected, step
	return o.operate(ctx, id, by, func(r Record) (Change, error) {
		s, err := o.stepOf(r, step)
		if err != nil {
			return Change{}, err
		}
		if r.Status != Stuck {
			return Change{}, wrong(r, "only a stuck saga's steps can be forced")
		}
		g, err := o.plans[r.Plan].load(unstuck(r), false)
		if err != nil {
			return Change{}, err
		}
		l, undo := &g.forward[s.index], &g.undo[s.index]
		switch {
		case r.Turned.IsZero() && g.committed():
			return Change{}, wrong(r, "it is past the point where it could be undone")
		case l.completed():
			return Change{}, wrong(r, step+" completed")
		case !l.known && !l.maybe:
			return Change{}, wrong(r, step+" was never begun")
		case l.harmless():
			return Change{}, wrong(r, step+" was rejected already")
		case undo.completed():
			return Change{}, wrong(r, step+" is undone already")
		}
		entries := forced(r.Entries, Entry{
			Step: step, Outcome: retry.Rejected, Tries: l.tries, At: r.Now, Forced: by.Actor,
		})
		if undo.known { // it was sent, and there was nothing to undo
			entries = forced(entries, Entry{
				Step: step, Undo: true, Outcome: retry.Completed, Tries: undo.tries, At: r.Now, Forced: by.Actor, Nothing: true,
			})
		}
		return o.again(r, entries), nil
	})
}

// unstuck returns a stuck saga in the direction that it had.
func unstuck(r Record) Record {
	r.Status = Running
	if !r.Turned.IsZero() {
		r.Status = Compensating
	}
	return r
}

// ForceUndone says that nothing is left of a step of a stuck saga that goes
// back: somebody undid it by hand, or accepts what is left. The saga goes on as
// after [Operator.Retry].
func (o *operator) ForceUndone(ctx context.Context, id ID, step string, by Audit) (Record, error) {
	by.Verb, by.Step = VerbForceUndone, step
	return o.operate(ctx, id, by, func(r Record) (Change, error) {
		s, err := o.stepOf(r, step)
		if err != nil {
			return Change{}, err
		}
		undo := find(r.Entries, step, true)
		switch {
		case r.Status != Stuck || r.Turned.IsZero():
			return Change{}, wrong(r, "only what a stuck saga undoes can be forced")
		case s.undo == nil || find(r.Entries, step, false).Step == "":
			return Change{}, wrong(r, step+" needs no undo")
		case !undo.Pending && undo.Step != "" && undo.Outcome == retry.Completed:
			return Change{}, wrong(r, step+" is undone already")
		}
		entries := forced(r.Entries, Entry{
			Step: step, Undo: true, Outcome: retry.Completed, Tries: undo.Tries, At: r.Now, Forced: by.Actor,
		})
		if forward := find(entries, step, false); forward.Pending {
			forward.Pending, forward.Outcome, forward.Forced = false, retry.Unknown, by.Actor
			entries = forced(entries, forward)
		}
		return o.again(r, entries), nil
	})
}

// Cancel has a saga compensated that is not past its pivot. When Cancel returns, the
// execution that it found begins no further step or try. Calls that are running go on. The
// next owner waits for them, or finds out what they did, and undoes it. If the pivot is
// running it decides: if it completes, the saga goes on.
//
// Where another process drives the saga, Cancel waits for a second until that process
// knows. This holds as long as the journal answers that process within a second. If ctx
// ends meanwhile, Cancel returns the ctx's error, and the saga is cancelled all the same.
func (o *operator) Cancel(ctx context.Context, id ID, by Audit) (Record, error) {
	by.Verb = VerbCancel
	return o.operate(ctx, id, by, func(r Record) (Change, error) {
		p := o.plans[r.Plan]
		switch {
		case p == nil:
			return Change{}, fmt.Errorf("%w: saga %s version %d", ErrNoDefinition, r.Name, r.Version)
		case r.Status.Final() || !r.Turned.IsZero() || r.Cancel:
			return Change{}, wrong(r, "it is over, or undone already")
		}
		g, err := p.load(r, false)
		if err != nil {
			return Change{}, err
		}
		if g.committed() {
			return Change{}, wrong(r, "it is past the point where it could be undone")
		}
		if r.Status == Stuck {
			c := o.again(r, r.Entries)
			c.Cancel = true
			return c, nil
		}
		return Change{Status: r.Status, Cancel: true}, nil
	})
}

// Abandon ends a saga where it stands: nothing more is done and nothing undone,
// whatever that leaves behind. When Abandon returns, the execution that it found begins no
// further call, as after [Operator.Cancel]. Calls that are running are not stopped.
func (o *operator) Abandon(ctx context.Context, id ID, by Audit) (Record, error) {
	by.Verb = VerbAbandon
	return o.operate(ctx, id, by, func(r Record) (Change, error) {
		if r.Status.Final() {
			return Change{}, wrong(r, "it is over")
		}
		return Change{Status: Abandoned, Keep: o.keep}, nil
	})
}

// operate applies what decide makes of the saga as it stands. A saga that is
// driven moves on by itself, so it is asked again some times.
func (o *operator) operate(ctx context.Context, id ID, by Audit, decide func(Record) (Change, error)) (Record, error) {
	if err := by.check(); err != nil {
		return Record{}, err
	}
	r, err := o.journal.Read(ctx, id)
	if err != nil {
		return r, err
	}
	for range 10 {
		if err := by.stale(r); err != nil {
			return r, err
		}
		c, err := decide(r)
		if err == nil && r.Corrupt != nil && len(c.Entries) > 0 {
			err = r.Corrupt // they would stand behind what cannot be read
		}
		if err != nil {
			return r, err
		}
		c.ID, c.Revision, c.By = id, r.Revision, by
		c.By.Revision = 0 // it is in the change
		was := r
		next, won, err := o.journal.Change(ctx, c)
		if err != nil {
			return r, err
		}
		r = next
		if won {
			o.observer.SagaMoved(ctx, MoveEvent{ID: id, Name: r.Name, From: was.Status, To: r.Status, Age: r.Now.Sub(r.CreatedAt)})
			return r, o.onChange(ctx, was, r)
		}
	}
	return r, wrong(r, "it moves too fast")
}

// again returns the change that sets a stuck saga going, with entries in place
// of those it has.
func (o *operator) again(r Record, entries []Entry) Change {
	c := Change{Status: unstuck(r).Status, Deadline: DefaultUndoBudget, Entries: make([]Entry, len(entries))}
	if p := o.plans[r.Plan]; p != nil {
		c.Deadline = p.undoBudget
	}
	turned := !r.Turned.IsZero()
	for i, entry := range entries {
		// What a person said stays said.
		failed := !entry.Pending && entry.Outcome != retry.Completed && entry.Forced == ""
		// Going back, only undos are tried anew: how calls ended is settled.
		if failed && (entry.Undo || !turned) {
			entry.Pending = true
		}
		if entry.Pending {
			entry.Tries, entry.RetryAt = 0, time.Time{}
			if entry.Undo || !turned {
				entry.Code = "" // else a key that was forgotten would not be sent again
			}
		}
		c.Entries[i] = entry
	}
	if p := o.plans[r.Plan]; p != nil && !turned {
		c.Deadline = p.resumedFor(r, c)
	}
	return c
}

// resumedFor returns how long a saga may take that goes forward again as c says: past its
// pivot the undo budget, and before it the saga's own time.
func (p *plan) resumedFor(r Record, c Change) time.Duration {
	r.Entries = c.Entries
	g, err := p.load(r, false)
	if err != nil || g.committed() {
		return p.undoBudget
	}
	return p.timeout
}

func (o *operator) stepOf(r Record, name string) (*step, error) {
	p := o.plans[r.Plan]
	if p == nil {
		return nil, fmt.Errorf("%w: saga %s version %d", ErrNoDefinition, r.Name, r.Version)
	}
	s := p.find(name)
	if s == nil {
		return nil, fmt.Errorf("%w: %q in saga %s version %d", ErrNoStep, name, r.Name, r.Version)
	}
	return s, nil
}

func wrong(r Record, why string) error {
	return fmt.Errorf("%w: saga %s is %s: %s", ErrConflict, r.ID, r.Status, why)
}

// find returns the entry for a call; the zero Entry if there is none.
func find(entries []Entry, step string, undo bool) Entry {
	for _, e := range entries {
		if e.Step == step && e.Undo == undo {
			return e
		}
	}
	return Entry{}
}

// forced returns entries with e in place of the one for the same call.
func forced(entries []Entry, e Entry) []Entry {
	all := make([]Entry, 0, len(entries)+1)
	for _, have := range entries {
		if have.Step != e.Step || have.Undo != e.Undo {
			all = append(all, have)
		}
	}
	return append(all, e)
}
