package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// A lease is the hold of an engine on its sagas, from its first heartbeat until it is lost. Its
// time counts on this process's monotonic clock, from before each heartbeat was sent, and ends a
// tenth early. So no other engine gets the engine's sagas before that time, whatever the
// journal's clock shows.
type lease struct {
	id     journal.EngineID
	length time.Duration
	ctx    context.Context // ends with the lease, for the reason of that
	end    context.CancelCauseFunc

	mu    sync.Mutex
	sent  time.Time // of the last heartbeat that arrived
	alarm *time.Timer
}

// newLease begins a lease whose first heartbeat was sent at that time.
func newLease(id journal.EngineID, length time.Duration, sent time.Time) *lease {
	l := &lease{id: id, length: length, sent: sent}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	l.alarm = time.AfterFunc(time.Until(l.until()), func() { l.end(journal.ErrLeaseLost) })
	return l
}

// until is called with l.mu held, or before l is shared.
func (l *lease) until() time.Time { return l.sent.Add(l.length - l.length/10) }

// extend books a heartbeat that was sent at that time and arrived.
func (l *lease) extend(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = sent
	l.alarm.Reset(time.Until(l.until()))
}

// isValid reports whether the lease is not over. A process that was stopped may
// find that out before its alarm does.
func (l *lease) isValid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx.Err() == nil && time.Now().Before(l.until())
}

// isLate reports whether heartbeats are missing: then no call begins.
func (l *lease) isLate() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.sent) > l.length/2
}

// lose ends the lease.
func (l *lease) lose(cause error) {
	l.alarm.Stop()
	l.end(cause)
}

// newEngineID returns a random ID. It cannot fail: crypto/rand ends the
// process rather than return less (Go 1.24).
func newEngineID() (id journal.EngineID) {
	_, _ = rand.Read(id[:])
	return id
}

// heartbeat keeps the engine alive until ctx ends. An engine that lost its lease goes
// on as another one, without the sagas that it had: they have no owner then.
func (e *Engine) heartbeat(ctx context.Context) {
	next := e.cfg.Lease / 3
	for pause(ctx, next) {
		l := e.current()
		if !l.isValid() {
			e.replaceLease(ctx, l)
			next = e.cfg.Lease / 3
			continue
		}
		switch err := e.heartbeatOnce(ctx, l); {
		case err == nil:
			next = e.cfg.Lease / 3
		case errors.Is(err, journal.ErrLeaseLost):
			l.lose(journal.ErrLeaseLost)
			next = 0
		default:
			e.tell(journal.Event{Kind: journal.EventJournalError, Engine: l.id, Err: err})
			next = e.cfg.Lease / 10
		}
	}
}

func (e *Engine) heartbeatOnce(ctx context.Context, l *lease) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Lease/3)
	defer cancel()
	sent := time.Now()
	err := e.journal.Heartbeat(ctx, l.id, e.cfg.Lease)
	if err == nil {
		l.extend(sent)
	}
	return err
}

// replaceLease begins another lease once the journal allows it. First it tells the journal that
// the process did not die with the old lease. So the sagas of that life do not count it as a
// death, even if other engines have claimed them since.
func (e *Engine) replaceLease(ctx context.Context, old *lease) {
	old.lose(journal.ErrLeaseLost)
	e.tell(journal.Event{Kind: journal.EventLeaseLost, Engine: old.id, Err: journal.ErrLeaseLost})
	for left := false; ; {
		if !left {
			left = e.leaveLease(ctx, old) == nil
		}
		if left {
			l, err := e.takeLease(ctx)
			if err == nil {
				e.mu.Lock()
				e.lease = l
				e.mu.Unlock()
				return
			}
		}
		if !pause(ctx, e.cfg.Lease/10) {
			return
		}
	}
}

// leaveLease ends a lease in the journal that is over here. It is safe to repeat.
func (e *Engine) leaveLease(ctx context.Context, old *lease) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Lease/3)
	defer cancel()
	return e.journal.Leave(ctx, old.id)
}

// takeLease begins a lease by its first heartbeat, under an ID of its own.
func (e *Engine) takeLease(ctx context.Context) (*lease, error) {
	return e.takeLeaseAs(ctx, newEngineID())
}

// takeLeaseAs begins a lease under that ID by its first heartbeat.
func (e *Engine) takeLeaseAs(ctx context.Context, id journal.EngineID) (*lease, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Lease/3)
	defer cancel()
	sent := time.Now()
	if err := e.journal.Heartbeat(ctx, id, e.cfg.Lease); err != nil {
		return nil, err
	}
	return newLease(id, e.cfg.Lease, sent), nil
}

// current returns the lease that the engine is in, or was in last.
func (e *Engine) current() *lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lease
}

// pause waits; false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
