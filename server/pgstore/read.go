package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// Read implements [store.Store]. It waits for no transaction, and sees what is committed. A final
// record is confirmed first where [Config.ConfirmReplays] says so. The confirmation waits for the
// transaction that holds the record, as Claim does.
func (s *Store) Read(ctx context.Context, id store.ID) (store.Record, error) {
	for wait := pgkit.WaitForLock(s.lockWait()); ; {
		if r, err := s.read(ctx, id); !wait.Again(ctx, err) {
			return r, wrap("read", err)
		}
	}
}

func (s *Store) read(ctx context.Context, id store.ID) (store.Record, error) {
	return s.readAs(ctx, id, store.Token{})
}

// readAs is read for a caller that may find its own claim. It must be as sure of that claim as of
// its own write.
func (s *Store) readAs(ctx context.Context, id store.ID, token store.Token) (store.Record, error) {
	for n := 1; ; n++ {
		f, err := s.find(ctx, id)
		switch {
		case pgkit.AgainAfterConflict(ctx, n, err): // it was the victim of a deadlock with partitions' maintenance
		case err != nil:
			return store.Record{}, err
		case s.mustConfirm(f, token):
			return s.confirm(ctx, id)
		default:
			return f.Record, nil
		}
	}
}

// find reads a record. It shares a statement with the reads of other callers at this time.
func (s *Store) find(ctx context.Context, id store.ID) (found, error) {
	f, ok, err := s.reads.Do(ctx, id)
	if err == nil && !ok {
		err = store.ErrNotFound
	}
	return f, cmp.Or(err, f.damage)
}

// newReads gathers the reads of records.
func (s *Store) newReads(c *pgkit.Combiner) *pgkit.BatchKind[store.ID, found] {
	return pgkit.NewBatchKind(c, pgkit.BatchKindConfig[store.ID, found]{
		One:     s.readOne,
		ScanOne: scanFound,
		Many: func(ids []store.ID) (pgkit.Statement, func(pgx.CollectableRow) (int, found, error)) {
			return s.readMany(ids), scanNumberedFound
		},
		Place: func(id store.ID) pgkit.Place { return pgkit.Place{Shard: s.db.Placement.Of(id).Shard} }, // one flush can have all nodes
	})
}

func (s *Store) readOne(id store.ID) pgkit.Statement {
	query := s.query().Read
	if s.cfg.Answers != AnswersInline {
		query = s.query().ReadPartitioned
	}
	return query.Bind(pgx.NamedArgs{"key": toUUID(id)})
}

func (s *Store) readMany(ids []store.ID) pgkit.Statement {
	query := s.query().ReadMany
	if s.cfg.Answers != AnswersInline {
		query = s.query().ReadManyPartitioned
	}
	keys := make(pgkit.Array[pgtype.UUID], len(ids))
	for i, id := range ids {
		keys[i] = toUUID(id)
	}
	return query.Bind(pgx.NamedArgs{"keys": keys})
}

// confirm writes before it trusts the record that it reads.
func (s *Store) confirm(ctx context.Context, id store.ID) (store.Record, error) {
	r, err := s.confirmRecord(ctx, id)
	if err != nil || !s.mayBeApart(r) {
		return r, err
	}
	f, err := s.find(ctx, id)
	return f.Record, err
}

// mayBeApart reports whether the answer of r has to be read by a statement of its own, if r is from
// a statement that locks. Such a statement shows the record as it was when the lock came. It shows
// other tables as they were before the wait for the lock.
func (s *Store) mayBeApart(r store.Record) bool {
	return s.cfg.Answers != AnswersInline && r.State == store.StateCompleted && r.Answer.Envelope == nil
}

func (s *Store) confirmRecord(ctx context.Context, id store.ID) (store.Record, error) {
	return pgkit.RetryConflict(ctx, func() (store.Record, error) {
		st := s.query().Confirm.Bind(pgx.NamedArgs{"key": toUUID(id), "lock_timeout": s.db.Briefly})
		f, ok, err := pgkit.Row(ctx, s.db.Writer, st, scanFound)
		if err == nil && !ok {
			err = store.ErrNotFound
		}
		if pgkit.Classify(err) == pgkit.FailureLockTimeout {
			err = fmt.Errorf("%w: %w", errUnconfirmed, err)
		}
		return f.Record, cmp.Or(err, f.damage)
	})
}

// errUnconfirmed: a record cannot be confirmed, because another transaction holds it. The other
// transaction does not decide about the key: a final record never is in progress again.
var errUnconfirmed = errors.New("the record is held by another transaction")

// mustConfirm reports whether a record must be confirmed. A record that is still to run promises
// nothing to any caller, and its take-over writes.
func (s *Store) mustConfirm(f found, token store.Token) bool {
	switch {
	case f.State == store.StateReleased, f.State == store.StateInProgress && f.Token != token:
		return false
	case f.State == store.StateInProgress && !s.cfg.SynchronousClaims:
		return true // the caller's own claim, whose commit may have been asynchronous
	}
	switch s.cfg.ConfirmReplays {
	case ConfirmAlways:
		return true
	case ConfirmNever:
		return false
	default:
		return f.synchronous
	}
}

var _ store.WatchStore = (*Store)(nil)

// Watch implements [store.WatchStore]. One goroutine asks the database about all runs that are
// watched, in one statement every 5 ms and, the longer they take, every 250 ms at last. With
// [Config].Listen the database tells, within a millisecond or so. After [Store.Close], and while
// the server does not answer, the channel is closed although the run may not have ended.
func (s *Store) Watch(id store.ID, fence int64) (ended <-chan struct{}, stop func()) {
	return s.poller.add(id, fence)
}

// Listening reports whether the connection of [Config].Listen is there at this
// moment. It is made when somebody first waits.
func (s *Store) Listening() bool {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	return s.poller.hears
}

// A watched is a run that somebody waits for. The poller's mutex guards it.
type watched struct {
	id       store.ID
	fence    int64
	ended    chan struct{}
	watchers int
	since    time.Time
	due      time.Time // the next look
	noted    bool      // whoever ends it will send a notification
}

// interval is the time from one look to the next.
func (w *watched) interval(now time.Time, hears bool) time.Duration {
	if w.noted && hears {
		return pollLast
	}
	return min(max(now.Sub(w.since)/pollShare, pollFirst), pollLast)
}

// add makes the caller wait for the end of a run.
func (p *poller) add(id store.ID, fence int64) (ended <-chan struct{}, stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		over := make(chan struct{})
		close(over)
		return over, func() {}
	}
	w := p.find(id, fence)
	w.watchers++
	p.start()
	return w.ended, sync.OnceFunc(func() { p.leave(w) })
}

// find returns the watched run, a new one if nobody watches it. p.mu is held.
func (p *poller) find(id store.ID, fence int64) *watched {
	for _, w := range p.watches[id] {
		if w.fence == fence {
			return w
		}
	}
	now := time.Now()
	w := &watched{id: id, fence: fence, ended: make(chan struct{}), since: now, due: now.Add(pollFirst)}
	p.watches[id] = append(p.watches[id], w)
	return w
}

func (p *poller) leave(w *watched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.watchers--
	if w.watchers == 0 {
		p.remove(w)
		p.poke() // perhaps it was the last
	}
}

// remove returns false if nobody watches w any more. p.mu is held.
func (p *poller) remove(w *watched) bool {
	i := slices.Index(p.watches[w.id], w)
	if i < 0 {
		return false
	}
	left := slices.Delete(p.watches[w.id], i, i+1)
	if len(left) == 0 {
		delete(p.watches, w.id)
	} else {
		p.watches[w.id] = left
	}
	return true
}

// tell wakes the waiters of w. p.mu is held.
func (p *poller) tell(w *watched) {
	if p.remove(w) {
		close(w.ended)
	}
}

// tellAll wakes everybody. p.mu is held.
func (p *poller) tellAll() {
	for _, w := range p.all() {
		p.tell(w)
	}
}

// all returns the watched runs. p.mu is held.
func (p *poller) all() (all []*watched) {
	for _, ofKey := range p.watches {
		all = append(all, ofKey...)
	}
	return all
}

// tellOf wakes the waiters for a run of the key.
func (p *poller) tellOf(id store.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range slices.Clone(p.watches[id]) {
		p.tell(w)
	}
}

// hear is called when the listener begins to hear, and when it ceases to. The listener may have
// missed ends in between, so all runs are due.
func (p *poller) hear(hears bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hears = hears
	now := time.Now()
	for _, w := range p.all() {
		w.due = now
	}
	p.poke()
}
