package natsstore

import (
	"context"
	"strconv"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A mark in the need space says that the key's record may need a person, or may come to need one by a compare-and-set
// from the revision in the mark. It is written before the record. So a crash between the two leaves a mark too many,
// never one too few, and readers look at the record of each mark.

// staleAfter is how old the mark of an absent record must be to be removed.
const staleAfter = time.Minute

// mark says that a write from revision from may make the key need a person. The revision in a mark never goes back
// while the mark is there: a late writer with an older revision, which is bound to lose, must not hide a newer one.
func (s *Store) mark(ctx context.Context, id store.ID, from uint64) error {
	subject := s.stream.bucket.of(needSpace, id)
	return s.stream.persist(ctx, func(ctx context.Context) (bool, error) {
		m, err := s.stream.last(ctx, subject)
		if err != nil {
			return true, err
		}
		if m.rev > 0 && !m.deleted && markedFrom(m) >= from {
			return false, nil
		}
		data := strconv.AppendUint(nil, from, 10)
		_, f, err := s.stream.publish(ctx, write{subject: subject, expect: m.rev, data: data})
		return f == outpaced || f == unknown, err
	})
}

// markedFrom returns the revision in a mark. Damaged bytes count as the latest one, so that the mark stays.
func markedFrom(m message) uint64 {
	from, err := strconv.ParseUint(string(m.data), 10, 64)
	if err != nil {
		return ^uint64(0)
	}
	return from
}

// needy calls visit for the entry of each key that needs a person. It reads the marked keys and no others, and removes
// marks that no write can make true any more.
func (s *Store) needy(ctx context.Context, visit func(entry)) error {
	return s.stream.scan(ctx, s.stream.bucket.all(needSpace), 0, func(m message) error {
		id, ok := idOf(m.subject)
		if m.deleted || !ok {
			return nil
		}
		e, err := s.glance(ctx, id)
		switch {
		case err != nil:
			return err
		case e.needsPerson():
			visit(e)
		case s.settledMark(m, e):
			// If another process has renewed the mark meanwhile, this write is refused. Any other failure leaves a mark
			// that the next call removes.
			_, _, _ = s.stream.publish(ctx, write{subject: m.subject, expect: m.rev, deleted: true, ttl: deletedTTL})
		}
		return nil
	})
}

// settledMark reports that the write which m announced can neither be true nor become true.
func (s *Store) settledMark(m message, e entry) bool {
	if e.rev == 0 { // forgotten or expired, or this leader has not read its log to the end
		return s.now().Sub(m.at) > staleAfter
	}
	return e.rev > markedFrom(m)
}

// glance returns the key's entry from the leader, without the parts of a large answer. An unreadable record needs no
// person here: the guard answers record-unreadable.
func (s *Store) glance(ctx context.Context, id store.ID) (entry, error) {
	m, err := s.stream.last(ctx, s.stream.bucket.of(keySpace, id))
	if err != nil || m.rev == 0 {
		return entry{}, err
	}
	e, err := decode(id, m.rev, m.data)
	if err != nil {
		s.log.WarnContext(ctx, "natsstore: a record cannot be read", "id", id, "error", err)
		return entry{rev: m.rev, deleted: true}, nil
	}
	return e, nil
}

// Attention implements [store.OperatorStore]. It reads one message for each of these keys.
func (s *Store) Attention(ctx context.Context) (store.Attention, error) {
	if err := ctx.Err(); err != nil {
		return store.Attention{}, err
	}
	var a store.Attention
	now := s.now()
	err := s.needy(ctx, func(e entry) {
		switch e.State {
		case store.StateUnknown:
			a.Unknown++
		case store.StateQuarantined:
			a.Quarantined++
		default:
			a.DeadLetters++
		}
		a.Oldest = max(a.Oldest, now.Sub(e.CreatedAt))
	})
	if err != nil {
		return store.Attention{}, err
	}
	return a, nil
}
