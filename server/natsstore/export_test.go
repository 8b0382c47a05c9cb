package natsstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A Stale is a read of an earlier moment. Between two moments the test lets the key move on.
type Stale struct{ e entry }

// Snapshot reads the key's entry.
func Snapshot(ctx context.Context, s *Store, id store.ID) (Stale, error) {
	e, err := s.read(ctx, id)
	return Stale{e}, err
}

// Absent is the read of a replica that does not know the key yet.
func Absent(id store.ID) Stale {
	var e entry
	e.ID = id
	return Stale{e}
}

// Inject makes the next n reads of the key see old. It returns how many did. It is not safe beside other calls.
func Inject(s *Store, old Stale, n int) (seen func() int) {
	count := 0
	s.fault = func(e entry) entry {
		if e.ID == old.e.ID && count < n {
			count++
			return old.e
		}
		return e
	}
	return func() int { return count }
}

// ForgetRuns empties the memory of own runs, as in another process.
func ForgetRuns(s *Store) { s.runs.entries = map[store.ID]entry{} }

// StreamOf returns the name of the bucket's stream.
func StreamOf(s *Store) string { return s.stream.bucket.stream() }

// RunsOf returns how many runs the store remembers.
func RunsOf(s *Store) int { return len(s.runs.entries) }

// Mark makes the write that comes before a move to a state that needs a person, as a process that dies then.
func Mark(ctx context.Context, s *Store, r store.Record) error {
	e, err := s.read(ctx, r.ID)
	if err != nil {
		return err
	}
	return s.mark(ctx, r.ID, e.rev)
}

// Marks counts the marks.
func Marks(ctx context.Context, s *Store) (n int, err error) {
	err = s.stream.scan(ctx, s.stream.bucket.all(needSpace), 0, func(m message) error {
		if !m.deleted {
			n++
		}
		return nil
	})
	return n, err
}

// ErrDied is the end of a process between two writes.
var ErrDied = errors.New("died")

// DieAfter makes every write after the first n fail before it is sent.
func DieAfter(s *Store, n int) {
	var sent atomic.Int64
	s.stream.cut = func(write) (bool, error) {
		if sent.Add(1) > int64(n) {
			return false, ErrDied
		}
		return false, nil
	}
}

// LoseAnswers loses the answers to the next n writes.
func LoseAnswers(s *Store, n int) {
	var sent atomic.Int64
	s.stream.cut = func(write) (bool, error) { return sent.Add(1) <= int64(n), nil }
}

// Skew makes the store believe that the leader's clock is d ahead.
func Skew(s *Store, d time.Duration) {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	s.clock.base = s.clock.base.Add(d)
}

// NewClock returns a clock with a probe.
func NewClock(probe func(context.Context) (time.Time, error)) (now func() time.Time, set func(context.Context) error) {
	c := &clock{ctx: context.Background(), probe: probe}
	return c.now, c.set
}

// Decode reads a stored message, for the fuzz test.
func Decode(id store.ID, data []byte) (store.Record, error) {
	e, err := decode(id, 1, data)
	return e.Record, err
}

// StreamConfig is the configuration that Create makes.
var StreamConfig = Config.streamConfig

// Flushes reads a server's report.
var Flushes = flushes

// ConfigOf returns the configuration that opened s.
func ConfigOf(s *Store) Config { return s.cfg }

// PollOnly lets further waiters poll.
func PollOnly(s *Store) { s.waits.most = 0 }

// Waits returns how many runs have waiters.
func Waits(s *Store) int {
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	return len(s.waits.runs)
}

// SubjectOf returns the subject of the key's record.
func SubjectOf(s *Store, id store.ID) string { return s.stream.bucket.of(keySpace, id) }
