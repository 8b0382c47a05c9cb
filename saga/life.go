package saga

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A life is one lease of an engine, from its first beat until it is lost. It is
// counted by this process's monotonic clock from before each beat was sent, and
// ends a tenth early: whatever the journal's clock says, nobody else has the
// engine's sagas before.
type life struct {
	id    EngineID
	lease time.Duration
	ctx   context.Context // ends with the life, for the reason of that
	end   context.CancelCauseFunc

	mu    sync.Mutex
	sent  time.Time // of the last beat that arrived
	alarm *time.Timer
}

// live begins a life whose first beat was sent at that time.
func live(id EngineID, lease time.Duration, sent time.Time) *life {
	l := &life{id: id, lease: lease, sent: sent}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	l.alarm = time.AfterFunc(time.Until(l.until()), func() { l.end(ErrLeaseLost) })
	return l
}

// until is called with l.mu held, or before l is shared.
func (l *life) until() time.Time { return l.sent.Add(l.lease - l.lease/10) }

// extend books a beat that was sent at that time and arrived.
func (l *life) extend(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = sent
	l.alarm.Reset(time.Until(l.until()))
}

// valid reports whether the life is not over. A process that was stopped may
// find that out before its alarm does.
func (l *life) valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx.Err() == nil && time.Now().Before(l.until())
}

// late reports whether beats are missing: then no call begins.
func (l *life) late() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.sent) > l.lease/2
}

// lose ends the life.
func (l *life) lose(cause error) {
	l.alarm.Stop()
	l.end(cause)
}

// beat keeps the engine alive until ctx ends. An engine that lost its lease goes
// on as another one, without the sagas that it had: they are orphans.
func (e *Engine) beat(ctx context.Context) {
	next := e.cfg.Lease / 3
	for pause(ctx, next) {
		l := e.current()
		if !l.valid() {
			e.rebirth(ctx, l)
			next = e.cfg.Lease / 3
			continue
		}
		switch err := e.beatOnce(ctx, l); {
		case err == nil:
			next = e.cfg.Lease / 3
		case errors.Is(err, ErrLeaseLost):
			l.lose(ErrLeaseLost)
			next = 0
		default:
			e.tell(EngineEvent{Kind: EngineJournalError, Engine: l.id, Err: err})
			next = e.cfg.Lease / 10
		}
	}
}

func (e *Engine) beatOnce(ctx context.Context, l *life) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Lease/3)
	defer cancel()
	sent := time.Now()
	err := e.journal.Beat(ctx, l.id, e.cfg.Lease)
	if err == nil {
		l.extend(sent)
	}
	return err
}

// rebirth begins another life once the journal lets it. First it says that the process has
// not died with the old one: the sagas of that life, also those that others have claimed
// since, do not count it as a death.
func (e *Engine) rebirth(ctx context.Context, old *life) {
	old.lose(ErrLeaseLost)
	e.tell(EngineEvent{Kind: EngineLeaseLost, Engine: old.id, Err: ErrLeaseLost})
	for left := false; ; {
		if !left {
			left = e.outlive(ctx, old) == nil
		}
		if left {
			l, err := e.born(ctx)
			if err == nil {
				e.mu.Lock()
				e.life = l
				e.mu.Unlock()
				return
			}
		}
		if !pause(ctx, e.cfg.Lease/10) {
			return
		}
	}
}

// outlive ends the lease of a life that is over. It is safe to repeat.
func (e *Engine) outlive(ctx context.Context, old *life) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Lease/3)
	defer cancel()
	return e.journal.Leave(ctx, old.id)
}

// born begins a life by its first beat, under an ID of its own.
func (e *Engine) born(ctx context.Context) (*life, error) {
	return e.bornAs(ctx, newEngineID())
}

// bornAs begins a life under that ID by its first beat.
func (e *Engine) bornAs(ctx context.Context, id EngineID) (*life, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Lease/3)
	defer cancel()
	sent := time.Now()
	if err := e.journal.Beat(ctx, id, e.cfg.Lease); err != nil {
		return nil, err
	}
	return live(id, e.cfg.Lease, sent), nil
}

// current returns the life that the engine is in, or was in last.
func (e *Engine) current() *life {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.life
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
