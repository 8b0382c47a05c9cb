package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// Operator are what people do to sagas, with or without an engine.
type Operator struct {
	journal journal.Journal
	plans   map[journal.PlanHash]*graph.Plan
	keep    time.Duration                        // of sagas that a verb ends
	observe func(context.Context, journal.Event) // nil: nobody listens
	// onChange is told of each saga that a verb has changed. It returns when the execution
	// that had the saga begins no further call, or with the error of ctx.
	onChange func(ctx context.Context, was, now journal.Record) error
	sent     func(journal.Signal) // is told of each signal that was stored; nil: nobody listens
}

// NewOperator returns the verbs for sagas in j, of which those of plans are known.
func NewOperator(j journal.Journal, plans []*graph.Plan, keep time.Duration) *Operator {
	o := &Operator{journal: j, plans: make(map[journal.PlanHash]*graph.Plan, len(plans)), keep: keep, onChange: waitOutOwner}
	for _, p := range plans {
		o.plans[p.Record.Hash] = p
	}
	return o
}

// Lookup returns what the journal knows of the saga, or [journal.ErrNotFound].
func (o *Operator) Lookup(ctx context.Context, id journal.ID) (journal.Record, error) {
	return o.journal.Read(ctx, id)
}

// WithKeep returns an operator like o that keeps what it abandons for that long.
func (o *Operator) WithKeep(keep time.Duration) *Operator {
	other := *o
	other.keep = keep
	return &other
}

// HasPlan reports whether the plan is that of a definition.
func (o *Operator) HasPlan(plan journal.PlanHash) bool { return o.plans[plan] != nil }

// Reader is that of the journal.
func (o *Operator) Reader() journal.Reader { return o.journal.Reader() }

// Stats counts the sagas; see [journal.Journal].
func (o *Operator) Stats(ctx context.Context) (journal.Stats, error) { return o.journal.Stats(ctx) }

// Sweep deletes at most limit sagas that are final and past their ExpiresAt, and returns how
// many. It suits a job that runs from time to time, and calls it again at once if it
// returns limit. In a service, let [Engine.RunSweeper] do it.
func (o *Operator) Sweep(ctx context.Context, limit int) (int, error) {
	return o.journal.Sweep(ctx, limit)
}

// Retry sets a stuck saga going again, in the direction that it had.
func (o *Operator) Retry(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
	by.Verb = journal.VerbRetry
	return o.operate(ctx, id, by, func(r journal.Record) (journal.Change, error) {
		if r.Status != journal.Stuck {
			return journal.Change{}, conflictError(r, "only a stuck saga can be retried")
		}
		return changeToResume(r, o.plans[r.Plan], r.Entries), nil
	})
}

// ForceOK says that a step of a stuck saga took effect, and what it returned.
func (o *Operator) ForceOK(ctx context.Context, id journal.ID, step string, output any, by journal.Audit) (journal.Record, error) {
	by.Verb, by.Step = journal.VerbForceOK, step
	return o.operate(ctx, id, by, func(r journal.Record) (journal.Change, error) {
		p := o.plans[r.Plan]
		if p == nil { // the journal's plan has no type, and no engine could go on with an output of another type
			return journal.Change{}, noDefinitionError(r)
		}
		s, err := findStep(p, r, step)
		if err != nil {
			return journal.Change{}, err
		}
		entry := find(r.Entries, step, false)
		switch {
		case r.Status != journal.Stuck:
			return journal.Change{}, conflictError(r, "only a stuck saga's steps can be forced")
		case !entry.Pending && entry.Outcome == retry.Completed && entry.Result != nil:
			return journal.Change{}, conflictError(r, step+" completed by itself")
		case entry.Skipped:
			return journal.Change{}, conflictError(r, step+" was skipped, and the saga went on without it")
		}
		data, err := contract.Encode(output)
		if err == nil {
			err = s.Output.Check(data)
		}
		if err != nil {
			return journal.Change{}, fmt.Errorf("%w: output of %s: %w", ErrEncode, step, errtext.Inner(err))
		}
		at := r.Now
		if !entry.Pending && entry.Outcome == retry.Completed { // it has no output: the steps after it could begin before
			at = entry.At
		}
		return changeToResume(r, p, replaceEntry(r.Entries, journal.Entry{
			Step: step, Outcome: retry.Completed, Attempts: entry.Attempts, At: at, Result: data, Forced: by.Actor,
		})), nil
	})
}

// ForceRejected says that a step's call did not happen and will not.
func (o *Operator) ForceRejected(ctx context.Context, id journal.ID, step string, by journal.Audit) (journal.Record, error) {
	by.Verb, by.Step = journal.VerbForceRejected, step
	return o.operate(ctx, id, by, func(r journal.Record) (journal.Change, error) {
		p, s, err := o.stepOf(ctx, r, step)
		if err != nil {
			return journal.Change{}, err
		}
		if r.Status != journal.Stuck {
			return journal.Change{}, conflictError(r, "only a stuck saga's steps can be forced")
		}
		loaded, err := load(p, unstuck(r), false)
		if err != nil {
			return journal.Change{}, err
		}
		l, undo := &loaded.forward[s.Index], &loaded.undo[s.Index]
		switch {
		case r.FailedAt.IsZero() && loaded.isCommitted() && !s.Optional:
			return journal.Change{}, conflictError(r, "it is past the point where it could be undone")
		case l.isCompleted():
			return journal.Change{}, conflictError(r, step+" completed")
		case !l.isKnown() && !l.maybe:
			return journal.Change{}, conflictError(r, step+" was never begun")
		case l.isHarmless():
			return journal.Change{}, conflictError(r, step+" was rejected already")
		case undo.isCompleted():
			return journal.Change{}, conflictError(r, step+" is undone already")
		}
		entries := replaceEntry(r.Entries, journal.Entry{
			Step: step, Outcome: retry.Rejected, Attempts: l.attempts, At: r.Now, Forced: by.Actor,
			Skipped: s.Optional && r.FailedAt.IsZero(),
		})
		if undo.isKnown() { // it was sent, and there was nothing to undo
			entries = replaceEntry(entries, journal.Entry{
				Step: step, Undo: true, Outcome: retry.Completed, Attempts: undo.attempts, At: r.Now, Forced: by.Actor, Nothing: true,
			})
		}
		return changeToResume(r, p, entries), nil
	})
}

// unstuck returns a stuck saga in the direction that it had.
func unstuck(r journal.Record) journal.Record {
	r.Status = journal.Running
	if !r.FailedAt.IsZero() {
		r.Status = journal.Compensating
	}
	return r
}

// ForceUndone says that nothing is left of a step of a stuck saga that goes back.
func (o *Operator) ForceUndone(ctx context.Context, id journal.ID, step string, by journal.Audit) (journal.Record, error) {
	by.Verb, by.Step = journal.VerbForceUndone, step
	return o.operate(ctx, id, by, func(r journal.Record) (journal.Change, error) {
		p, s, err := o.stepOf(ctx, r, step)
		if err != nil {
			return journal.Change{}, err
		}
		undo := find(r.Entries, step, true)
		switch {
		case r.Status != journal.Stuck || r.FailedAt.IsZero():
			return journal.Change{}, conflictError(r, "only what a stuck saga undoes can be forced")
		case s.Undo == nil || find(r.Entries, step, false).Step == "" || find(r.Entries, step, false).Skipped:
			return journal.Change{}, conflictError(r, step+" needs no undo")
		case !undo.Pending && undo.Step != "" && undo.Outcome == retry.Completed:
			return journal.Change{}, conflictError(r, step+" is undone already")
		}
		entries := replaceEntry(r.Entries, journal.Entry{
			Step: step, Undo: true, Outcome: retry.Completed, Attempts: undo.Attempts, At: r.Now, Forced: by.Actor,
		})
		if forward := find(entries, step, false); forward.Pending {
			forward.Pending, forward.Outcome, forward.Forced = false, retry.Unknown, by.Actor
			entries = replaceEntry(entries, forward)
		}
		return changeToResume(r, p, entries), nil
	})
}

// Cancel has a saga compensated that is not past its pivot.
func (o *Operator) Cancel(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
	by.Verb = journal.VerbCancel
	return o.operate(ctx, id, by, func(r journal.Record) (journal.Change, error) {
		p, err := o.planOf(ctx, r)
		switch {
		case err != nil:
			return journal.Change{}, err
		case r.Status.Final() || !r.FailedAt.IsZero() || r.Cancel:
			return journal.Change{}, conflictError(r, "it is over, or undone already")
		}
		loaded, err := load(p, r, false)
		if err != nil {
			return journal.Change{}, err
		}
		if loaded.isCommitted() {
			return journal.Change{}, conflictError(r, "it is past the point where it could be undone")
		}
		if loaded.isPivotOpen() {
			return journal.Change{}, conflictError(r, "its pivot has begun, and may have taken effect")
		}
		if r.Status == journal.Stuck {
			c := changeToResume(r, p, r.Entries)
			c.Cancel = true
			return c, nil
		}
		return journal.Change{Status: r.Status, Cancel: true}, nil
	})
}

// Abandon ends a saga where it stands.
func (o *Operator) Abandon(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
	by.Verb = journal.VerbAbandon
	return o.operate(ctx, id, by, func(r journal.Record) (journal.Change, error) {
		if r.Status.Final() {
			return journal.Change{}, conflictError(r, "it is over")
		}
		return journal.Change{Status: journal.Abandoned, Keep: o.keep}, nil
	})
}

// operate applies what decide makes of the saga as it stands. A saga that is
// running moves on by itself, so it is asked again some times.
func (o *Operator) operate(ctx context.Context, id journal.ID, by journal.Audit, decide func(journal.Record) (journal.Change, error)) (journal.Record, error) {
	if err := checkAudit(by); err != nil {
		return journal.Record{}, err
	}
	r, err := o.journal.Read(ctx, id)
	if err != nil {
		return r, err
	}
	for range 10 {
		if err := checkRevision(by, r); err != nil {
			return r, err
		}
		c, err := decide(r)
		if err == nil && r.Corrupt != nil && (len(c.Entries) > 0 || c.Wake || by.Verb == journal.VerbRetry) {
			// Entries would stand behind those that cannot be read, and what these say would stay.
			err = r.Corrupt
		}
		if err != nil {
			return r, err
		}
		by.Step = cmp.Or(c.By.Step, by.Step)
		c.ID, c.Revision, c.By = id, r.Revision, by
		c.By.Revision = 0 // it is in the change
		was := r
		next, won, err := o.journal.Change(ctx, c)
		if err != nil {
			return r, err
		}
		r = next
		if won {
			o.report(ctx, journal.Event{Kind: journal.EventMoved, ID: id, Name: r.Name, From: was.Status, To: r.Status, Age: r.Now.Sub(r.CreatedAt)})
			return r, o.onChange(ctx, was, r)
		}
	}
	return r, conflictError(r, "it moves too fast")
}

// changeToResume returns the change that resumes a stuck saga, with entries instead of its present
// entries. p is the saga's plan; nil: it is not known.
func changeToResume(r journal.Record, p *graph.Plan, entries []journal.Entry) journal.Change {
	c := journal.Change{Status: unstuck(r).Status, Deadline: graph.DefaultUndoBudget, Entries: make([]journal.Entry, len(entries))}
	if p != nil {
		c.Deadline = p.UndoBudget
	}
	compensating := !r.FailedAt.IsZero()
	for i, entry := range entries {
		// A person's decision stays.
		failed := !entry.Pending && entry.Outcome != retry.Completed && entry.Forced == "" && !entry.Skipped
		// In a saga that goes back only undos are tried anew: the outcomes of calls are settled.
		if failed && (entry.Undo || !compensating) {
			entry.Pending = true
		}
		if entry.Pending && !entry.IsAsleep() {
			entry.Attempts, entry.RetryAt = 0, time.Time{}
			if entry.Undo || !compensating {
				entry.Code = "" // else a forgotten key would not be sent again
			}
		}
		c.Entries[i] = entry
	}
	if p != nil && !compensating {
		c.Deadline = resumedFor(p, r, c)
	}
	return c
}

// resumedFor returns the time of a saga that goes forward again by c. Past its pivot it is the
// undo budget, and before it the saga's own time.
func resumedFor(p *graph.Plan, r journal.Record, c journal.Change) time.Duration {
	r.Entries = c.Entries
	loaded, err := load(p, r, false)
	if err != nil || loaded.isCommitted() {
		return p.UndoBudget
	}
	return p.Timeout
}

// planOf returns the plan of the saga: that of its definition, or else the one that the journal
// keeps. The latter has no types and times. The saga then gets [DefaultUndoBudget] as its new time,
// as in a Retry without a definition.
func (o *Operator) planOf(ctx context.Context, r journal.Record) (*graph.Plan, error) {
	if p := o.plans[r.Plan]; p != nil {
		return p, nil
	}
	stored, err := o.journal.ReadPlan(ctx, r.Name, r.Version)
	switch {
	case errors.Is(err, journal.ErrNotFound) || err == nil && stored.Hash != r.Plan:
		return nil, noDefinitionError(r)
	case err != nil:
		return nil, err
	}
	return graph.ParsePlan(stored)
}

func noDefinitionError(r journal.Record) error {
	return fmt.Errorf("%w: saga %s version %d", ErrNoDefinition, r.Name, r.Version)
}

func (o *Operator) stepOf(ctx context.Context, r journal.Record, name string) (*graph.Plan, *graph.Step, error) {
	p, err := o.planOf(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	s, err := findStep(p, r, name)
	return p, s, err
}

func findStep(p *graph.Plan, r journal.Record, name string) (*graph.Step, error) {
	p, err := p.WithItems(r.Entries)
	if err != nil {
		return nil, err
	}
	s := p.Find(name)
	switch {
	case s == nil:
		return nil, fmt.Errorf("%w: %q in saga %s version %d", ErrNoStep, name, r.Name, r.Version)
	case s.IsEach:
		return nil, conflictError(r, name+" makes no call; name one of its items")
	}
	return s, nil
}

func conflictError(r journal.Record, why string) error {
	return fmt.Errorf("%w: saga %s is %s: %s", ErrConflict, r.ID, r.Status, why)
}

// find returns the entry for a call; the zero Entry if there is none.
func find(entries []journal.Entry, step string, undo bool) journal.Entry {
	for _, e := range entries {
		if e.Step == step && e.Undo == undo {
			return e
		}
	}
	return journal.Entry{}
}

// replaceEntry returns entries with e instead of the entry for the same call.
func replaceEntry(entries []journal.Entry, e journal.Entry) []journal.Entry {
	all := make([]journal.Entry, 0, len(entries)+1)
	for _, have := range entries {
		if have.Step != e.Step || have.Undo != e.Undo {
			all = append(all, have)
		}
	}
	return append(all, e)
}

func checkAudit(a journal.Audit) error {
	switch {
	case a.Actor == "" || len(a.Actor) > journal.MaxActorBytes:
		return fmt.Errorf("%w: Actor has %d bytes, must have 1 to %d", ErrReasonRequired, len(a.Actor), journal.MaxActorBytes)
	case a.Reason == "" || len(a.Reason) > journal.MaxReasonBytes:
		return fmt.Errorf("%w: Reason has %d bytes, must have 1 to %d", ErrReasonRequired, len(a.Reason), journal.MaxReasonBytes)
	}
	return nil
}

// checkRevision returns an error if r is not the saga as the actor saw it.
func checkRevision(a journal.Audit, r journal.Record) error {
	if a.Revision != 0 && a.Revision != r.Revision {
		return conflictError(r, fmt.Sprintf("it moved on from revision %d to %d", a.Revision, r.Revision))
	}
	return nil
}
