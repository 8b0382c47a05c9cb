package console

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// sagaWork does the verbs for sagas of one journal.
type sagaWork struct{ sagas *Sagas }

// page implements workshop. Sagas that began after the confirmation are left out.
func (w sagaWork) page(ctx context.Context, j *job, cursor string, limit int) ([]target, string, error) {
	f, err := parseSagaFilter(j.Filter)
	if err != nil {
		return nil, "", err
	}
	at, err := parseSagaCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	records, err := w.sagas.Reader.Browse(ctx, f.request(j.Until, at, limit))
	if err != nil {
		return nil, "", err
	}
	targets := make([]target, 0, len(records))
	for i := range records {
		targets = append(targets, sagaTarget(&records[i]))
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
func (w sagaWork) show(ctx context.Context, t named) (target, error) {
	rec, err := w.sagas.Reader.Show(ctx, journal.ID(t.ID))
	if errors.Is(err, journal.ErrNotFound) {
		return target{t.ID, t.Version, journal.ID(t.ID).String() + ", gone"}, nil
	}
	return sagaTarget(&rec), err
}

// move implements workshop.
func (w sagaWork) move(ctx context.Context, j *job, t target, actor string) (string, error) {
	by := journal.Audit{Actor: actor, Reason: j.audited(), Revision: t.Version}
	err := moveSaga(ctx, w.sagas.Operator, j, journal.ID(t.ID), by)
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
