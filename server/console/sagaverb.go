package console

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// The verbs for sagas.
var (
	verbRetry = verb{
		Name: string(journal.VerbRetry), Label: "Retry",
		Consequence: "The saga goes on in the direction that it had. Each failed call is tried anew under its key, with new budgets of time.",
	}
	verbRetryNow = verb{
		Name: string(journal.VerbRetryNow), Label: "Retry now",
		Consequence: "The waiting calls of the saga are tried within a lease of its engine, instead of after their backoff.",
	}
	verbCancel = verb{
		Name: string(journal.VerbCancel), Label: "Cancel", Harm: true,
		Consequence: "The saga begins no further step, and undoes its effects. A saga past its pivot is refused.",
	}
	verbAbandonSaga = verb{
		Name: string(journal.VerbAbandon), Label: "Abandon", Harm: true,
		Consequence: "The saga ends where it stands. Nothing more is done and nothing is undone, whatever that leaves behind.",
	}
	verbForceOK = verb{
		Name: string(journal.VerbForceOK), Label: "Force OK", Harm: true, Step: true, Output: true,
		Consequence: "You state that the step took effect, and give its output. The saga goes on with it.",
	}
	verbForceUndone = verb{
		Name: string(journal.VerbForceUndone), Label: "Force undone", Harm: true, Step: true,
		Consequence: "You state that nothing is left of the step: somebody undid it by hand, or accepts what is left. The saga goes on.",
	}
	verbForceRejected = verb{
		Name: string(journal.VerbForceRejected), Label: "Force rejected", Harm: true, Step: true,
		Consequence: "You state that the call of the step did not happen, and that no late copy of it will. A saga that went forward goes back now.",
	}
)

// sagaVerbs are the verbs for sagas, by their names.
var sagaVerbs = byName(verbRetry, verbRetryNow, verbCancel, verbAbandonSaga, verbForceOK, verbForceUndone, verbForceRejected)

// sagaListVerbs are the verbs that fit the sagas of a list. They need no step.
func sagaListVerbs(status string) []verb {
	switch status {
	case journal.Stuck.String():
		return []verb{verbRetry, verbCancel, verbAbandonSaga}
	case journal.Running.String():
		return []verb{verbRetryNow, verbCancel, verbAbandonSaga}
	case journal.Compensating.String():
		return []verb{verbRetryNow, verbAbandonSaga}
	case statusUnfinished:
		return []verb{verbRetry, verbRetryNow, verbCancel, verbAbandonSaga}
	default:
		return nil
	}
}

// sagaVerbsFor are the verbs that fit one saga as a whole.
func sagaVerbsFor(s *sagaRow) []verb {
	if s.Status == journal.Stuck && !s.FailedAt.IsZero() {
		return []verb{verbRetry, verbAbandonSaga} // it goes back already
	}
	return sagaListVerbs(s.State())
}

// canForceOK reports whether a person may give the output of a step, if the definition is known.
func canForceOK(s *sagaRow, step *stepRow) bool {
	return s.Status == journal.Stuck && s.FailedAt.IsZero() && !step.Plan.Each && step.State() != stateCompleted && step.State() != stateSkipped
}

// stepVerbsFor are the verbs that fit a step of a stuck saga. The operator has the last word: it knows the plan. defined:
// it knows the saga's definition, too.
func stepVerbsFor(s *sagaRow, step *stepRow, defined bool) []verb {
	if s.Status != journal.Stuck || step.Plan.Each { // an Each makes no call
		return nil
	}
	var fit []verb
	begun, state, back := step.Forward != nil, step.State(), !s.FailedAt.IsZero()
	if defined && canForceOK(s, step) {
		fit = append(fit, verbForceOK)
	}
	if back && begun && state != stateRejected && state != stateSkipped && step.UndoState() != stateCompleted {
		fit = append(fit, verbForceUndone)
	}
	if begun && state != stateCompleted && state != stateRejected && state != stateSkipped {
		fit = append(fit, verbForceRejected)
	}
	return fit
}

// stuckStep is the step on which the saga is stuck, as far as the record of a list knows it; nil if it is stuck otherwise. The
// page of the saga has the entries, and so may have further verbs.
func stuckStep(s *sagaRow) *stepRow {
	on := s.StuckOn
	if on == nil || on.Step == "" {
		return nil
	}
	step := &stepRow{Plan: saga.StepInfo{Name: on.Step}}
	if on.Undo { // a call that was rejected is not undone
		step.Forward = &journal.Entry{Step: on.Step, Outcome: retry.Completed}
		step.Undo = &journal.Entry{Step: on.Step, Undo: true, Outcome: on.Outcome}
		return step
	}
	step.Forward = &journal.Entry{Step: on.Step, Outcome: on.Outcome}
	return step
}

// sagaWork does the verbs for sagas of one journal.
type sagaWork struct{ sagas *Sagas }

// page implements workshop. Sagas that began after the confirmation are left out.
func (s sagaWork) page(ctx context.Context, j *job, cursor string, limit int) ([]target, string, error) {
	f, err := parseSagaFilter(j.Filter)
	if err != nil {
		return nil, "", err
	}
	at, err := parseSagaCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	records, err := s.sagas.Reader.Browse(ctx, f.request(j.Until, at, limit))
	if err != nil {
		return nil, "", err
	}
	targets := make([]target, 0, len(records))
	for i := range records {
		if j.includes(records[i].CreatedAt, records[i].Now) {
			targets = append(targets, sagaTarget(&records[i]))
		}
	}
	if n := len(records); n == limit {
		return targets, sagaCursorText(&records[n-1]), nil
	}
	return targets, "", nil
}

// sagaTarget is a saga as a target. An executed saga moves on by itself, so only the decision about a stuck one is
// about its revision.
func sagaTarget(r *journal.Record) target {
	t := target{ID: store.ID(r.ID), Text: r.ID.String() + ", " + r.Name + ", " + r.Status.String()}
	if r.Status == journal.Stuck {
		t.Version = r.Revision
	}
	return t
}

// show implements workshop.
func (s sagaWork) show(ctx context.Context, t named) (target, error) {
	rec, err := s.sagas.Reader.Show(ctx, journal.ID(t.ID))
	if errors.Is(err, journal.ErrNotFound) {
		return target{t.ID, t.Version, journal.ID(t.ID).String() + ", gone"}, nil
	}
	return sagaTarget(&rec), err
}

// move implements workshop.
func (s sagaWork) move(ctx context.Context, j *job, t target, actor string) (string, error) {
	by := journal.Audit{Actor: actor, Reason: j.auditReason(), Revision: t.Version}
	err := moveSaga(ctx, s.sagas.Operator, j, journal.ID(t.ID), by)
	if err == nil {
		return "", nil
	}
	for _, refusal := range []error{
		saga.ErrConflict, saga.ErrNotFound, saga.ErrCorrupt, saga.ErrNoDefinition, saga.ErrNoStep, saga.ErrEncode, saga.ErrReasonRequired,
	} {
		if errors.Is(err, refusal) {
			return clip(strings.TrimPrefix(err.Error(), "saga: "), 250), nil
		}
	}
	if isBadInput(err) {
		return err.Error(), nil
	}
	return "", err
}

func moveSaga(ctx context.Context, o SagaOperator, j *job, id journal.ID, by journal.Audit) error {
	var err error
	switch journal.Verb(j.Verb) {
	case journal.VerbRetry:
		_, err = o.Retry(ctx, id, by)
	case journal.VerbRetryNow:
		_, err = o.RetryNow(ctx, id, by)
	case journal.VerbCancel:
		_, err = o.Cancel(ctx, id, by)
	case journal.VerbAbandon:
		_, err = o.Abandon(ctx, id, by)
	case journal.VerbForceOK:
		_, err = o.ForceOK(ctx, id, j.Step, json.RawMessage(j.Output), by)
	case journal.VerbForceUndone:
		_, err = o.ForceUndone(ctx, id, j.Step, by)
	case journal.VerbForceRejected:
		_, err = o.ForceRejected(ctx, id, j.Step, by)
	default:
		err = badInput("there is no such verb")
	}
	return err
}
