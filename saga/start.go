package saga

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A started is a saga that was stored, or was there; drive is what drives it in this
// process, nil if nothing does. Otherwise err says why it is not known to be there.
type started struct {
	record Record
	drive  *drive
	err    error
}

// start stores the saga of req, unless it is there, and returns it, with what
// drives it in this process; nil if nothing does. With toTheEnd it returns only when
// that has ended, or nobody need wait for it any more.
//
// The goroutine that will drive the saga stores it, and its caller is woken once: to store
// it in a goroutine that the caller can leave, wake the caller, and begin another takes an
// eighth more time of a saga that runs alone.
func (e *Engine) start(ctx context.Context, req StartRequest, toTheEnd bool) (Record, *drive, error) {
	l := e.current()
	if !l.valid() && !e.isClosing() {
		return e.find(ctx, req)
	}
	req.Engine = l.id
	stored := make(chan *started, 1) // nobody need be there to hear it
	over := make(chan struct{})
	if !e.begin(func() {
		defer close(over)
		e.storeAndCarry(ctx, l, &req, stored)
	}) {
		return Record{}, nil, notStarted(ErrClosed)
	}
	if toTheEnd {
		select {
		case <-over:
		case <-l.ctx.Done(): // a step's function may take its time to notice
		case <-ctx.Done():
			return left(ctx, stored)
		}
	}
	select {
	case s := <-stored:
		return s.record, s.drive, s.err
	case <-ctx.Done():
		return left(ctx, stored)
	}
}

// left is what a caller knows whose ctx ended before it was told.
func left(ctx context.Context, stored <-chan *started) (Record, *drive, error) {
	select {
	case s := <-stored:
		return s.record, s.drive, s.err
	default:
		return Record{}, nil, fmt.Errorf("saga: start: %w: %w", ErrFateUnknown, ended(ctx))
	}
}

// begin runs fn in a goroutine, unless the engine is closed.
func (e *Engine) begin(fn func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.work.Go(fn)
	return true
}

func (e *Engine) isClosing() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

// storeAndCarry stores the saga, tells stored of it, and drives it. Records and requests
// are passed by reference from here on: by value they would fill half of the stack.
func (e *Engine) storeAndCarry(ctx context.Context, l *life, req *StartRequest, stored chan<- *started) {
	growStack()
	s := new(started)
	told := false
	defer func() {
		if !told { // the journal ended the goroutine
			s.err = fmt.Errorf("saga: start: %w: %w", ErrFateUnknown, &PanicError{Value: "runtime.Goexit"})
			stored <- s
		}
	}()
	own := e.store(context.WithValue(ctx, stayKey{}, true), l, req, s)
	told = true
	d := s.drive // s is the caller's now
	stored <- s
	if own {
		e.carry(d)
	}
}

// store stores the saga. If it returns true its drive is new, and the caller's to carry.
func (e *Engine) store(ctx context.Context, l *life, req *StartRequest, s *started) (own bool) {
	created, err := e.journalStart(ctx, req, &s.record)
	unknown := errors.Is(err, ErrFateUnknown)
	for n := 0; errors.Is(err, ErrFateUnknown) && n < 3 && pause(ctx, 50*time.Millisecond<<n); n++ {
		created, err = e.journalStart(ctx, req, &s.record)
	}
	if unknown && err != nil && !errors.Is(err, ErrFateUnknown) { // the last try says nothing of the first
		err = fmt.Errorf("%w: %w", ErrFateUnknown, err)
	}
	s.drive = e.driven(req.ID)
	switch {
	case err != nil && s.drive != nil: // the journal is away, and the saga is here
		s.record = s.drive.record
	case errors.Is(err, ErrFateUnknown):
		e.seek(req.ID)
		s.err = fmt.Errorf("saga: start: %w", err)
		return false
	case err != nil:
		s.err = notStarted(err)
		return false
	case created: // maybe by a call beside this one, with another input
		e.mu.Lock()
		s.drive, own = e.enlist(l, &s.record, startedHere)
		e.mu.Unlock()
	}
	s.err = same(&s.record, req)
	return own
}

// journalStart stores the saga. What a journal does that panics nobody knows.
func (e *Engine) journalStart(ctx context.Context, req *StartRequest, r *Record) (created bool, err error) {
	err = guarded(func() (err error) {
		*r, created, err = e.journal.Start(ctx, *req)
		return err
	})
	var panicked *PanicError
	if errors.As(err, &panicked) {
		e.tell(EngineEvent{Kind: EnginePanic, Engine: req.Engine, ID: req.ID, Err: err})
		err = fmt.Errorf("%w: %w", ErrFateUnknown, err)
	}
	return created, err
}
