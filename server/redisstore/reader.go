package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

const (
	// readTimeout bounds each answer of a reader.
	readTimeout = 2 * time.Second
	// mostListed is how many records of a window, or lines of the audit log, a reader reads for one answer.
	mostListed = 10_000
)

// Reader implements [store.Store]. Redis has no index of routes or children and no numbered log, so its Reader has limits:
//
//   - Each answer takes at most two seconds, or is a [store.ErrTooSlow].
//   - Browse reads records of the window, the youngest first, until the page is full. If 10,000 of them are not enough,
//     because few match, that is a [store.ErrNoIndex].
//   - A list of the children of a record reads the records from that one on; all of them if it is of another store.
//   - The records of lists have no Status of an Answer, because a list leaves out the answers.
//   - Estimate is Stats. So Young counts all records, and SweepLag is 0.
//   - AuditPage reads the youngest 10,000 entries. An older page is a [store.ErrNoIndex]. The numbers of the entries are
//     made of their times.
func (s *Store) Reader() store.Reader { return reader{s} }

// A reader shows the records of a store to people.
type reader struct{ s *Store }

// callBriefly calls do with a ctx that ends soon.
func callBriefly[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	short, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := do(short)
	if err != nil && ctx.Err() == nil && errors.Is(short.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no answer within %v: %w", store.ErrTooSlow, readTimeout, err)
	}
	return answer, err
}

// Show implements [store.Reader].
func (r reader) Show(ctx context.Context, id store.ID) (store.Record, error) {
	found, err := callBriefly(ctx, func(ctx context.Context) (store.Record, error) { return r.s.Read(ctx, id) })
	return found.Public(), err
}

// List implements [store.Reader].
func (r reader) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	l := listing{states: req.Listed(), letters: req.DeadLetters, matches: req.Matches, after: req.After, limit: req.Limit}
	if req.Parent != (store.ID{}) {
		parent, err := r.Show(ctx, req.Parent)
		switch {
		case err == nil:
			l.from = parent.CreatedAt.Add(-clockSkew)
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
	}
	return r.list(ctx, l)
}

// clockSkew is more than the clocks of two servers of a cluster differ: no child is that much older than its parent.
const clockSkew = time.Minute

func (r reader) list(ctx context.Context, l listing) ([]store.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found, err := callBriefly(ctx, func(ctx context.Context) ([]store.Record, error) { return r.s.list(ctx, l) })
	for i := range found {
		found[i] = found[i].Public()
	}
	return found, err
}

// allStates are the states of a record.
var allStates = []store.State{
	store.StateInProgress, store.StateCompleted, store.StateReleased, store.StateUnknown, store.StateQuarantined, store.StateCancelled,
}

// Browse implements [store.Reader].
func (r reader) Browse(ctx context.Context, req store.BrowseRequest) ([]store.Record, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	var now time.Time
	if req.From.IsZero() && req.To.IsZero() {
		var err error
		if now, err = callBriefly(ctx, func(ctx context.Context) (time.Time, error) { return r.s.client.Time(ctx).Result() }); err != nil {
			return nil, refusal("browse", err)
		}
	}
	from, to := req.Window(now)
	l := listing{states: req.States, backward: true, after: req.Before, from: from, limit: req.Limit, most: mostListed}
	if len(l.states) == 0 {
		l.states = allStates
	}
	// No ID is less than the zero ID. So this is a place before the window, and it excludes To.
	if end := (store.Cursor{CreatedAt: to}); !to.IsZero() && (l.after.CreatedAt.IsZero() || end.Compare(l.after) < 0) {
		l.after = end
	}
	l.matches = func(rec *store.Record, _ bool) bool {
		return slices.Contains(l.states, rec.State) && (req.Effect == 0 || req.Effect == rec.Effect) &&
			(req.Route == "" || req.Route == rec.Route) && !rec.CreatedAt.Before(from) && l.follows(rec.Cursor(), l.after)
	}
	return r.list(ctx, l)
}

// Attention implements [store.Reader].
func (r reader) Attention(ctx context.Context) (store.Attention, error) {
	return callBriefly(ctx, r.s.attention)
}

// Estimate implements [store.Reader].
func (r reader) Estimate(ctx context.Context) (store.Estimate, error) {
	st, err := callBriefly(ctx, r.s.Stats)
	if err != nil {
		return store.Estimate{}, err
	}
	e := store.Estimate{Bytes: st.Bytes, OldestInProgress: st.OldestInProgress, AsyncStandbys: st.AsyncStandbys, ByState: make(map[store.State]int)}
	for state, n := range st.ByState {
		e.Records += n
		if n > 0 {
			e.ByState[state] = int(n)
		}
	}
	e.Young = int(e.Records)
	return e, nil
}

// AuditPage implements [store.Reader].
func (r reader) AuditPage(ctx context.Context, req store.AuditRequest) ([]store.AuditEntry, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	all, err := callBriefly(ctx, func(ctx context.Context) ([]store.AuditEntry, error) { return r.s.auditLog(ctx, req.ID, mostListed+1) })
	if err != nil {
		return nil, err
	}
	longer := len(all) > mostListed
	numberByTime(all)
	all = slices.DeleteFunc(all[:min(len(all), mostListed)], func(e store.AuditEntry) bool {
		return req.Actor != "" && e.Actor != req.Actor || req.Before != 0 && e.Number >= req.Before
	})
	if longer && len(all) < req.Limit {
		return nil, fmt.Errorf("%w: the audit log has more than %d entries", store.ErrNoIndex, mostListed)
	}
	return all[:min(len(all), req.Limit)], nil
}

// numberByTime gives entries without numbers, the youngest first, numbers that grow with their times. It counts
// the entries of one microsecond. So an entry has the same number in each answer that contains all of these.
func numberByTime(entries []store.AuditEntry) {
	last := int64(0)
	for i := range slices.Backward(entries) {
		if entries[i].Number == 0 {
			entries[i].Number = max(entries[i].At.UnixMicro()<<8, last+1)
		}
		last = entries[i].Number
	}
}
