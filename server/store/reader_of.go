package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
)

const (
	// readTimeout bounds each answer of a [ReaderOf].
	readTimeout = 2 * time.Second
	// mostListed is how many records or lines a [ReaderOf] reads for one answer.
	mostListed = 10_000
)

// ReaderOf returns the [Reader] of a store: its own if s is a [ReaderStore]. For any other store it returns a Reader
// over the methods of s:
//
//   - Each answer takes at most two seconds, or is an [ErrTooSlow].
//   - Browse reads the window from its oldest record with [OperatorStore].List. A window with more than 10,000 records
//     that match is an [ErrNoIndex]. The zero From is an hour before now by this process's clock.
//   - The records of lists have no Status of an Answer, because [OperatorStore].List leaves out the answers.
//   - Estimate is [Store].Stats. So Young counts all records, and SweepLag is 0.
//   - AuditPage reads the youngest 10,000 entries. An older page is an [ErrNoIndex]. If the store does not number its
//     entries, the numbers are made of their times.
//
// It sends nothing. It returns an error wrapping [ErrArgument] if s is nil, or a nil pointer.
func ReaderOf(s Store) (Reader, error) {
	if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w: no Store: it is nil", ErrArgument)
	}
	if own, ok := s.(ReaderStore); ok {
		return own.Reader(), nil
	}
	return storeReader{s}, nil
}

// A storeReader shows the records of a store that has no Reader of its own.
type storeReader struct{ s Store }

// within calls do with a ctx that ends soon.
func within[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	short, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := do(short)
	if err != nil && ctx.Err() == nil && errors.Is(short.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no answer within %v: %w", ErrTooSlow, readTimeout, err)
	}
	return answer, err
}

// Show implements [Reader].
func (r storeReader) Show(ctx context.Context, id ID) (Record, error) {
	found, err := within(ctx, func(ctx context.Context) (Record, error) { return r.s.Read(ctx, id) })
	return found.Public(), err
}

// List implements [Reader].
func (r storeReader) List(ctx context.Context, req ListRequest) ([]Record, error) {
	if err := req.CheckRead(); err != nil {
		return nil, err
	}
	return r.list(ctx, req)
}

func (r storeReader) list(ctx context.Context, req ListRequest) ([]Record, error) {
	found, err := within(ctx, func(ctx context.Context) ([]Record, error) { return r.s.List(ctx, req) })
	for i := range found {
		found[i] = found[i].Public()
	}
	return found, err
}

// everyState are the states of a record.
var everyState = []State{StateInProgress, StateCompleted, StateReleased, StateUnknown, StateQuarantined, StateCancelled}

// Browse implements [Reader].
func (r storeReader) Browse(ctx context.Context, req BrowseRequest) ([]Record, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	from, to := req.Window(time.Now())
	list := ListRequest{States: req.States, Effect: req.Effect, Route: req.Route, Limit: mostListed + 1, Running: time.Microsecond}
	if len(list.States) == 0 {
		list.States = everyState
	}
	list.After.CreatedAt = from.Add(-time.Microsecond) // stores have no finer times, and From is in the window
	all, err := r.list(ctx, list)
	if err != nil {
		return nil, err
	}
	end := slices.IndexFunc(all, func(r Record) bool { return !to.IsZero() && !r.CreatedAt.Before(to) || !before(r, req.Before) })
	if end < 0 {
		if len(all) > mostListed {
			return nil, fmt.Errorf("%w: more than %d records since %v; ask for a shorter time", ErrNoIndex, mostListed, from.Format(time.RFC3339))
		}
		end = len(all)
	}
	all = slices.DeleteFunc(all[:end], func(r Record) bool { return r.CreatedAt.Before(from) })
	slices.Reverse(all)
	return all[:min(len(all), req.Limit)], nil
}

// before reports whether r is on the pages after that which ended with last.
func before(r Record, last Cursor) bool {
	return last.CreatedAt.IsZero() || cmp.Or(r.CreatedAt.Compare(last.CreatedAt), bytes.Compare(r.ID[:], last.ID[:])) < 0
}

// Attention implements [Reader].
func (r storeReader) Attention(ctx context.Context) (Attention, error) {
	return within(ctx, r.s.Attention)
}

// Estimate implements [Reader].
func (r storeReader) Estimate(ctx context.Context) (Estimate, error) {
	st, err := within(ctx, r.s.Stats)
	if err != nil {
		return Estimate{}, err
	}
	e := Estimate{Bytes: st.Bytes, OldestInProgress: st.OldestInProgress, ByState: make(map[State]int)}
	for state, n := range st.ByState {
		e.Records += n
		if n > 0 {
			e.ByState[state] = int(n)
		}
	}
	e.Young = int(e.Records)
	return e, nil
}

// AuditPage implements [Reader].
func (r storeReader) AuditPage(ctx context.Context, req AuditRequest) ([]AuditEntry, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	all, err := within(ctx, func(ctx context.Context) ([]AuditEntry, error) { return r.s.AuditLog(ctx, req.ID, mostListed+1) })
	if err != nil {
		return nil, err
	}
	longer := len(all) > mostListed
	numberByTime(all)
	all = slices.DeleteFunc(all[:min(len(all), mostListed)], func(e AuditEntry) bool {
		return req.Actor != "" && e.Actor != req.Actor || req.Before != 0 && e.Number >= req.Before
	})
	if longer && len(all) < req.Limit {
		return nil, fmt.Errorf("%w: the audit log has more than %d entries", ErrNoIndex, mostListed)
	}
	return all[:min(len(all), req.Limit)], nil
}

// numberByTime gives entries without numbers, the youngest first, numbers that grow with their times. It counts
// the entries of one microsecond. So an entry has the same number in each answer that contains all of these.
func numberByTime(entries []AuditEntry) {
	last := int64(0)
	for i := range slices.Backward(entries) {
		if entries[i].Number == 0 {
			entries[i].Number = max(entries[i].At.UnixMicro()<<8, last+1)
		}
		last = entries[i].Number
	}
}
