package redisstore

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/server/store"
)

// A source is an index of one bucket, of which the list has read a part.
type source struct {
	index string
	page  int            // how many members the next read asks for
	ahead []store.Cursor // read and not used, in order
	last  store.Cursor   // the last one read, or where the list begins
	more  bool           // the index may have more
}

// sources is a heap: the source whose cursor comes first in the list is first.
type sources struct {
	listing
	all []*source
}

func (h *sources) Len() int { return len(h.all) }
func (h *sources) Less(i, j int) bool {
	return h.follows(h.all[j].ahead[0], h.all[i].ahead[0])
}
func (h *sources) Swap(i, j int) { h.all[i], h.all[j] = h.all[j], h.all[i] }
func (h *sources) Push(x any)    { h.all = append(h.all, x.(*source)) }
func (h *sources) Pop() any {
	last := h.all[len(h.all)-1]
	h.all = h.all[:len(h.all)-1]
	return last
}

// listInOrder merges indexes that are in the order of lists, and stops when the page is full.
func (s *Store) listInOrder(ctx context.Context, l listing, of []func(*bucket) string) ([]store.Record, error) {
	h := &sources{listing: l}
	// A page of a list has few records of each index: IDs are digests.
	page := 4 + 2*min(l.limit, mostListed)/(buckets*len(of))
	for i := range s.buckets {
		for _, index := range of {
			h.all = append(h.all, &source{index: index(&s.buckets[i]), page: page, last: l.after, more: true})
		}
	}
	if err := s.readAhead(ctx, l, h.all...); err != nil {
		return nil, err
	}
	h.all = slices.DeleteFunc(h.all, func(src *source) bool { return len(src.ahead) == 0 })
	heap.Init(h)
	var found []store.Record
	for seen := 0; len(h.all) > 0 && len(found) < l.limit; {
		if l.most > 0 && seen >= l.most {
			return nil, fmt.Errorf("%w: %d records were read, and %d of them match; ask for a shorter time", store.ErrNoIndex, seen, len(found))
		}
		ids, err := s.nextIDs(ctx, h, min(max(l.limit-len(found), leastBatch), maxBatch))
		if err != nil {
			return nil, err
		}
		if found, err = s.fetch(ctx, l, ids, found); err != nil {
			return nil, err
		}
		seen += len(ids)
	}
	slices.SortStableFunc(found, func(a, b store.Record) int {
		if l.backward {
			a, b = b, a
		}
		return cmp.Or(a.Cursor().Compare(b.Cursor()), cmp.Compare(a.Fence, b.Fence))
	})
	found = slices.CompactFunc(found, func(a, b store.Record) bool { return a.ID == b.ID }) // moved meanwhile
	return found[:min(len(found), l.limit)], nil
}

// leastBatch is how many records a list reads at least at once: some may not match.
const leastBatch = 16

// nextIDs takes at most n IDs from the sources, in order.
func (s *Store) nextIDs(ctx context.Context, h *sources, n int) ([]store.ID, error) {
	var ids []store.ID
	for len(ids) < n && len(h.all) > 0 {
		src := h.all[0]
		ids = append(ids, src.ahead[0].ID)
		src.ahead = src.ahead[1:]
		if len(src.ahead) == 0 && src.more {
			if err := s.readAhead(ctx, h.listing, src); err != nil {
				return nil, err
			}
		}
		if len(src.ahead) == 0 {
			heap.Pop(h)
		} else {
			heap.Fix(h, 0)
		}
	}
	return ids, nil
}

// readAhead reads the next page of each source. Members with the score of the last one come again, and are left out;
// so pages grow.
func (s *Store) readAhead(ctx context.Context, l listing, all ...*source) error {
	for len(all) > 0 {
		pipe := s.client.Pipeline()
		replies := make([]*redis.ZSliceCmd, len(all))
		for i, src := range all {
			replies[i] = l.read(ctx, pipe, src)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return refusal("list", err)
		}
		for i, src := range all {
			if err := src.take(l, replies[i].Val()); err != nil {
				return err
			}
		}
		all = slices.DeleteFunc(slices.Clone(all), func(src *source) bool { return len(src.ahead) > 0 || !src.more })
	}
	return nil
}

// read asks for the next page of a source.
func (l *listing) read(ctx context.Context, pipe redis.Pipeliner, src *source) *redis.ZSliceCmd {
	by := &redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: int64(src.page)}
	if !l.from.IsZero() {
		by.Min = strconv.FormatInt(l.from.UnixMicro(), 10)
	}
	last := strconv.FormatInt(src.last.CreatedAt.UnixMicro(), 10)
	switch {
	case l.backward && !src.last.CreatedAt.IsZero():
		by.Max = last
	case !l.backward && !src.last.CreatedAt.IsZero():
		by.Min = last
	}
	if l.backward {
		return pipe.ZRevRangeByScoreWithScores(ctx, src.index, by)
	}
	return pipe.ZRangeByScoreWithScores(ctx, src.index, by)
}

// take adds a page to the source.
func (src *source) take(l listing, page []redis.Z) error {
	src.more = len(page) == src.page
	src.page *= 4
	for _, z := range page {
		m, _ := z.Member.(string)
		if len(m) != len(store.ID{}) {
			return errReply
		}
		at := store.Cursor{CreatedAt: timeOf(z.Score), ID: store.ID([]byte(m))}
		if l.follows(at, src.last) {
			src.ahead = append(src.ahead, at)
			src.last = at
		}
	}
	return nil
}
