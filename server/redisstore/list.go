package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A listing says which records a list has, and between which places.
type listing struct {
	states   []store.State
	letters  bool // the dead letters alone, whatever the states
	matches  func(rec *store.Record, deadLetter bool) bool
	backward bool         // the youngest first
	after    store.Cursor // where the list begins: its records follow this place. The zero Cursor is the beginning
	from     time.Time    // no record is older; zero: any may be
	limit    int
	most     int // how many records are read at most for the list; 0: any number
}

// follows reports whether a place comes after another in the order of the list. The zero Cursor comes before all.
func (l *listing) follows(at, other store.Cursor) bool {
	if l.backward {
		return other.CreatedAt.IsZero() || at.Compare(other) < 0
	}
	return at.Compare(other) > 0
}

// list reads records in the order of an index: that of all records if the list has completed ones, and else those of its
// states. The records have no answers.
func (s *Store) list(ctx context.Context, l listing) ([]store.Record, error) {
	switch {
	case l.letters:
		return s.listInOrder(ctx, l, []func(*bucket) string{func(b *bucket) string { return b.letters }})
	case slices.Contains(l.states, store.StateCompleted):
		return s.listInOrder(ctx, l, []func(*bucket) string{func(b *bucket) string { return b.created }})
	}
	return s.listInOrder(ctx, l, indexes(l.states))
}

// indexes returns the indexes that have all keys in these states. Completed is not among them.
func indexes(states []store.State) []func(*bucket) string {
	var found []func(*bucket) string
	add := func(of func(*bucket) string, state store.State) {
		if slices.Contains(states, state) {
			found = append(found, of)
		}
	}
	add(func(b *bucket) string { return b.active }, store.StateInProgress)
	add(func(b *bucket) string { return b.unknown }, store.StateUnknown)
	add(func(b *bucket) string { return b.quarantined }, store.StateQuarantined)
	add(func(b *bucket) string { return b.released }, store.StateReleased)
	add(func(b *bucket) string { return b.cancelled }, store.StateCancelled)
	return found
}

// listHead is how many bytes of a record a list reads at first: route and memo are mostly within them.
const listHead = 1024

// fetch reads records of a list, without their answers, and appends those that are listed.
func (s *Store) fetch(ctx context.Context, l listing, ids []store.ID, found []store.Record) ([]store.Record, error) {
	calls := make([]*call, len(ids))
	for i, id := range ids {
		b := s.bucketOf(id)
		var err error
		if calls[i], err = s.begin(ctx, listScript, b, []string{b.record(id)}, listHead-1); err != nil {
			return nil, err
		}
	}
	for i, c := range calls {
		value, err := s.end(ctx, c)
		if err != nil {
			return nil, err
		}
		reply := list(value)
		raw := text(reply, 2)
		if len(raw) >= headBytes && len(raw) < envelopeAt(raw) { // a long memo
			b := s.bucketOf(ids[i])
			if value, err = s.do(ctx, listScript, b, []string{b.record(ids[i])}, envelopeAt(raw)-1); err != nil {
				return nil, err
			}
			reply = list(value)
			raw = text(reply, 2)
		}
		if raw == "" {
			continue // gone meanwhile
		}
		now, err := clock(reply, 0)
		if err != nil {
			return nil, err
		}
		r, err := decode(ids[i], raw, now)
		if err != nil {
			return nil, err
		}
		r.Answer = store.Answer{}
		if l.matches(&r, raw[atLetter] == 1) {
			found = append(found, r)
		}
	}
	return found, nil
}

// timeOf is the time of a score.
func timeOf(score float64) time.Time { return time.UnixMicro(int64(score)).UTC() }
