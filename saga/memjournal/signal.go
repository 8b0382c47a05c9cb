package memjournal

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

type signalID struct {
	saga journal.ID
	name string
}

// A signal is what is stored of a [journal.Signal].
type signal struct {
	value []byte
	at    time.Time
}

// Send implements [journal.OperatorJournal].
func (j *Journal) Send(ctx context.Context, s journal.Signal, by journal.Audit) error {
	if s.Value == nil || s.Name == "" {
		return fmt.Errorf("%w: signal %q without a name or a value", ErrArgument, s.Name)
	}
	if err := j.lock(ctx); err != nil {
		return err
	}
	defer j.mu.Unlock()
	id, now := signalID{s.ID, s.Name}, j.clock()
	stored, sent := j.signals[id]
	r, started := j.sagas[s.ID]
	switch {
	case sent && stored.value == nil:
		return journal.ErrTooLate
	case sent && !bytes.Equal(stored.value, s.Value):
		return journal.ErrSignalReused
	case sent:
		return nil
	case !started && by.Verb != "":
		return journal.ErrNotFound
	case started && (r.Status.Final() || !r.FailedAt.IsZero()):
		return journal.ErrTooLate
	}
	j.signals[id] = signal{slices.Clone(s.Value), now}
	if r.Status == journal.Running && r.Deferred == nil && (!r.Engine.IsZero() || r.WakeAt.After(now)) {
		r.WakeAt = now
		j.sagas[s.ID] = r
	}
	if by.Verb != "" {
		j.log(journal.AuditEntry{At: now, ID: s.ID, Audit: by, From: r.Status, To: r.Status, Fence: r.Fence})
	}
	return nil
}

// EndWait implements [journal.Journal].
func (j *Journal) EndWait(ctx context.Context, o journal.Owner, name string) (journal.Signal, error) {
	if err := j.lock(ctx); err != nil {
		return journal.Signal{}, err
	}
	defer j.mu.Unlock()
	r, ok := j.sagas[o.ID]
	if !ok || r.Engine != o.Engine || r.Fence != o.Fence || r.Status != journal.Running {
		return journal.Signal{}, journal.ErrLeaseLost
	}
	id := signalID{o.ID, name}
	if _, sent := j.signals[id]; !sent {
		j.signals[id] = signal{at: j.clock()}
	}
	return journal.Signal{ID: o.ID, Name: name, Value: slices.Clone(j.signals[id].value)}, nil
}

// Signals implements [journal.Journal].
func (j *Journal) Signals(ctx context.Context, ids []journal.ID) ([]journal.Signal, error) {
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	var found []journal.Signal
	for id, s := range j.signals {
		if slices.Contains(ids, id.saga) {
			found = append(found, journal.Signal{ID: id.saga, Name: id.name, Value: slices.Clone(s.value)})
		}
	}
	return found, nil
}

// WakeSignalled implements [journal.Journal]. Send wakes each saga at once, so there is nothing to do.
func (j *Journal) WakeSignalled(ctx context.Context) (int, error) { return 0, ctx.Err() }

// sweepSignals deletes the signals of sagas that are gone, and those that have waited for one for too long. j.mu is held.
func (j *Journal) sweepSignals(swept map[journal.ID]bool, now time.Time) {
	for id, s := range j.signals {
		_, there := j.sagas[id.saga]
		if swept[id.saga] || !there && now.Sub(s.at) > journal.SignalRetention {
			delete(j.signals, id)
		}
	}
}
