package redisstore

import (
	"context"

	"github.com/fanonce/fanonce/server/store"
)

const (
	dueOfBucket    = 100  // the most records that one look at a bucket returns
	activeOfBucket = 1000 // the most runs of a bucket that one sweep looks at, the oldest first
	sweptAtOnce    = 100  // the most records of one script: it keeps the server from all other work
)

// Sweep implements [store.Store]. It asks every bucket for the records that are due, and deletes them. It also removes the index
// entries of records that Redis has deleted by itself, an hour after a sweep might have.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := store.CheckLimit(limit); err != nil {
		return 0, err
	}
	total := 0
	perBucket := min(limit, dueOfBucket)
	for active := activeOfBucket; total < limit; active = 0 {
		replies, err := s.everywhere(ctx, dueScript, func(b *bucket) []string { return []string{b.final, b.active, b.answers} }, perBucket, active)
		if err != nil {
			return total, err
		}
		var due, running, stale [buckets][]any
		full := false
		for i, l := range replies {
			if len(l) != 3 {
				return total, errReply
			}
			due[i], running[i], stale[i] = list(l[0]), list(l[1]), list(l[2])
			full = full || len(due[i]) == perBucket
		}
		n, err := s.sweepParts(ctx, limit-total, &due, &running, &stale)
		total += n
		if err != nil || n == 0 || !full {
			return total, err
		}
	}
	return total, nil
}

// sweepParts sweeps at most limit of the records.
func (s *Store) sweepParts(ctx context.Context, limit int, parts ...*[buckets][]any) (total int, err error) {
	for _, part := range parts {
		n, err := s.sweepPart(ctx, limit-total, part)
		total += n
		if err != nil || total >= limit {
			return total, err
		}
	}
	return total, nil
}

// sweepPart sends scripts as long as all of them together cannot delete more than limit, and then waits for them.
func (s *Store) sweepPart(ctx context.Context, limit int, part *[buckets][]any) (total int, err error) {
	var calls []*call
	left := limit // that the calls on their way may not take
	collect := func() error {
		for _, c := range calls {
			value, err := s.end(ctx, c)
			if err != nil {
				return err
			}
			n, _ := value.(int64)
			total += int(n)
		}
		calls, left = nil, limit-total
		return nil
	}
	for i := range part {
		for ids := part[i]; len(ids) > 0; {
			if left == 0 {
				if err := collect(); err != nil || left == 0 {
					return total, err
				}
			}
			n := min(len(ids), sweptAtOnce)
			most := min(n, left)
			c, err := s.beginSweep(ctx, &s.buckets[i], ids[:n], most)
			if err != nil {
				return total, err
			}
			calls, ids, left = append(calls, c), ids[n:], left-most
		}
	}
	return total, collect()
}

func (s *Store) beginSweep(ctx context.Context, b *bucket, ids []any, most int) (*call, error) {
	keys := []string{b.active, b.final, b.released, b.cancelled, b.letters, b.answers, b.created}
	for _, id := range ids {
		raw, _ := id.(string)
		if len(raw) != len(store.ID{}) {
			return nil, errReply
		}
		keys = append(keys, b.record(store.ID([]byte(raw))))
	}
	return s.begin(ctx, sweepScript, b, keys, append([]any{most}, ids...)...)
}
