package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A listing says which records a list has, and between which places.
type listing struct {
	states  []store.State
	letters bool // the dead letters alone, whatever the states
	matches func(rec *store.Record, deadLetter bool) bool
	after   store.Cursor
	limit   int
}

// list reads unknown and quarantined keys, dead letters, runs, and released or cancelled keys in the order of their
// indexes. For completed keys, which are in no such order, it reads all records. The records have no answers.
func (s *Store) list(ctx context.Context, l listing) ([]store.Record, error) {
	switch {
	case l.letters:
		return s.listInOrder(ctx, l, []func(*bucket) string{func(b *bucket) string { return b.letters }})
	case slices.Contains(l.states, store.StateCompleted):
		return s.listAll(ctx, l, indexes(l.states))
	}
	return s.listInOrder(ctx, l, indexes(l.states))
}

// indexes returns the indexes that have all keys in these states, without repetition.
func indexes(states []store.State) []func(*bucket) string {
	completed := slices.Contains(states, store.StateCompleted)
	var found []func(*bucket) string
	add := func(of func(*bucket) string, states_ ...store.State) {
		if slices.ContainsFunc(states_, func(s store.State) bool { return slices.Contains(states, s) }) {
			found = append(found, of)
		}
	}
	add(func(b *bucket) string { return b.active }, store.StateInProgress)
	add(func(b *bucket) string { return b.unknown }, store.StateUnknown)
	add(func(b *bucket) string { return b.quarantined }, store.StateQuarantined)
	add(func(b *bucket) string { return b.final }, store.StateCompleted)
	if !completed { // else they are in final
		add(func(b *bucket) string { return b.released }, store.StateReleased)
		add(func(b *bucket) string { return b.cancelled }, store.StateCancelled)
	}
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

// listAll reads every record of the indexes, bucket by bucket.
func (s *Store) listAll(ctx context.Context, l listing, of []func(*bucket) string) ([]store.Record, error) {
	var found []store.Record
	for i := range s.buckets {
		for _, index := range of {
			members, err := s.client.ZRange(ctx, index(&s.buckets[i]), 0, -1).Result()
			if err != nil {
				return nil, refusal("list", err)
			}
			for part := range slices.Chunk(members, maxBatch) {
				ids, err := parseIDs(part)
				if err != nil {
					return nil, err
				}
				if found, err = s.fetch(ctx, l, ids, found); err != nil {
					return nil, err
				}
			}
		}
		slices.SortFunc(found, func(a, b store.Record) int { return a.Cursor().Compare(b.Cursor()) })
		found = slices.CompactFunc(found, func(a, b store.Record) bool { return a.ID == b.ID }) // moved meanwhile
		found = found[:min(len(found), l.limit)]
	}
	return found, nil
}

func parseIDs(members []string) ([]store.ID, error) {
	ids := make([]store.ID, len(members))
	for i, m := range members {
		if len(m) != len(store.ID{}) {
			return nil, errReply
		}
		ids[i] = store.ID([]byte(m))
	}
	return ids, nil
}

// timeOf is the time of a score.
func timeOf(score float64) time.Time { return time.UnixMicro(int64(score)).UTC() }
