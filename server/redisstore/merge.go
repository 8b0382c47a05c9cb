package redisstore

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/server/store"
)

const firstPage = 16 // of one index in one bucket: most lists are short. Each further page is four times as long

// A source is an index of one bucket, of which the list has read a part.
type source struct {
	index string
	page  int            // how many members the next read asks for
	ahead []store.Cursor // read and not used, in order
	last  store.Cursor   // the last one read
	more  bool           // the index may have more
}

// sources is a heap: the source with the least cursor is first.
type sources []*source

func (h sources) Len() int           { return len(h) }
func (h sources) Less(i, j int) bool { return h[i].ahead[0].Compare(h[j].ahead[0]) < 0 }
func (h sources) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *sources) Push(x any)        { *h = append(*h, x.(*source)) }
func (h *sources) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// listInOrder merges indexes that are in the order of lists, and stops when the page is full.
func (s *Store) listInOrder(ctx context.Context, l listing, of []func(*bucket) string) ([]store.Record, error) {
	var all sources
	for i := range s.buckets {
		for _, index := range of {
			all = append(all, &source{index: index(&s.buckets[i]), page: firstPage, last: l.after, more: true})
		}
	}
	if err := s.readAhead(ctx, all...); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(src *source) bool { return len(src.ahead) == 0 })
	heap.Init(&all)
	var found []store.Record
	for len(all) > 0 && len(found) < l.limit {
		ids, err := s.nextIDs(ctx, &all, min(max(l.limit-len(found), firstPage), maxBatch))
		if err != nil {
			return nil, err
		}
		if found, err = s.fetch(ctx, l, ids, found); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(found, func(a, b store.Record) int {
		return cmp.Or(a.Cursor().Compare(b.Cursor()), cmp.Compare(a.Fence, b.Fence))
	})
	found = slices.CompactFunc(found, func(a, b store.Record) bool { return a.ID == b.ID }) // moved meanwhile
	return found[:min(len(found), l.limit)], nil
}

// nextIDs takes at most n IDs from the sources, in order.
func (s *Store) nextIDs(ctx context.Context, all *sources, n int) ([]store.ID, error) {
	var ids []store.ID
	for len(ids) < n && len(*all) > 0 {
		src := (*all)[0]
		ids = append(ids, src.ahead[0].ID)
		src.ahead = src.ahead[1:]
		if len(src.ahead) == 0 && src.more {
			if err := s.readAhead(ctx, src); err != nil {
				return nil, err
			}
		}
		if len(src.ahead) == 0 {
			heap.Pop(all)
		} else {
			heap.Fix(all, 0)
		}
	}
	return ids, nil
}

// readAhead reads the next page of each source. Members with the score of the last one come again, and are left out;
// so pages grow.
func (s *Store) readAhead(ctx context.Context, all ...*source) error {
	pipe := s.client.Pipeline()
	replies := make([]*redis.ZSliceCmd, len(all))
	for i, src := range all {
		from := "-inf"
		if !src.last.CreatedAt.IsZero() {
			from = strconv.FormatInt(src.last.CreatedAt.UnixMicro(), 10)
		}
		replies[i] = pipe.ZRangeByScoreWithScores(ctx, src.index, &redis.ZRangeBy{Min: from, Max: "+inf", Count: int64(src.page)})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return refusal("list", err)
	}
	for i, src := range all {
		if err := src.take(replies[i].Val()); err != nil {
			return err
		}
		if len(src.ahead) == 0 && src.more {
			if err := s.readAhead(ctx, src); err != nil {
				return err
			}
		}
	}
	return nil
}

// take adds a page to the source.
func (src *source) take(page []redis.Z) error {
	src.more = len(page) == src.page
	src.page = src.page * 4
	for _, z := range page {
		m, _ := z.Member.(string)
		ids, err := parseIDs([]string{m})
		if err != nil {
			return err
		}
		at := store.Cursor{CreatedAt: timeOf(z.Score), ID: ids[0]}
		if at.Compare(src.last) > 0 {
			src.ahead = append(src.ahead, at)
			src.last = at
		}
	}
	return nil
}
