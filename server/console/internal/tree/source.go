package tree

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// A source is one that is asked. Only the builder's goroutine reads and sets err.
type source struct {
	Source

	err error // why it is asked no more
}

// found is what a source knows: of a key the record, of a saga the saga.
type found struct {
	record store.Record
	saga   *journal.Record
}

// show returns what the source knows of an ID; nil if it does not know it.
func (s *source) show(ctx context.Context, id store.ID) (*found, error) {
	if s.Store != nil {
		r, err := s.Store.Show(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil
		}
		return &found{record: r}, err
	}
	r, err := s.Journal.Show(ctx, journal.ID(id))
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	return &found{saga: &r}, err
}

// listChildren returns at most limit records below each ID. A list has no answers, so the status of each
// completed record is a question of its own.
func (s *source) listChildren(ctx context.Context, ids []store.ID, limit int) (map[store.ID][]store.Record, error) {
	if s.Store == nil {
		return nil, nil // a saga does not name its caller
	}
	all := map[store.ID][]store.Record{}
	for _, id := range ids {
		records, err := s.Store.List(ctx, store.ListRequest{Parent: id, Limit: limit})
		if err != nil {
			return nil, err
		}
		for i := range records {
			if records[i].State != store.StateCompleted {
				continue
			}
			// A record that is gone since keeps what the list says.
			if r, err := s.Store.Show(ctx, records[i].ID); err == nil {
				records[i].Answer.Status = r.Answer.Status
			}
		}
		if limit -= len(records); len(records) > 0 {
			all[id] = records
		}
		if limit < 1 {
			break
		}
	}
	return all, nil
}

// ask calls f side by side for each source that may still be asked, and returns the results by source. It waits for
// no source longer than limit. A source that ignores its ctx ends its call later, and the result is lost.
func ask[T any](ctx context.Context, limit time.Duration, sources []*source, f func(context.Context, *source) (T, error)) []T {
	type answer struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answers := make([]chan answer, len(sources))
	for i, s := range sources {
		if s.err != nil {
			continue
		}
		answers[i] = make(chan answer, 1)
		go func() {
			value, err := call(ctx, s, f)
			answers[i] <- answer{value, err}
		}()
	}
	results := make([]T, len(sources))
	for i, s := range sources {
		if s.err != nil {
			continue
		}
		var a answer
		select {
		case a = <-answers[i]:
		case <-ctx.Done():
			select {
			case a = <-answers[i]: // it came while another source was waited for
			default:
				a.err = fmt.Errorf("console: no answer in time: %w", ctx.Err())
			}
		}
		if s.err = a.err; a.err == nil {
			results[i] = a.value
		}
	}
	return results
}

// call calls f. A Reader that panics fails alone: its panic would end the process.
func call[T any](ctx context.Context, s *source, f func(context.Context, *source) (T, error)) (value T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("console: the reader panicked: %v", r)
		}
	}()
	return f(ctx, s)
}
