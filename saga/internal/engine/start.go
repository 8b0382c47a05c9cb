package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// A started is a saga that was stored now or before. execution executes it in this process, and
// is nil if no execution does. Otherwise err says why the saga is not known to be stored.
type started struct {
	record    journal.Record
	execution *execution
	err       error
}

// start stores the saga of req, unless it is there, and returns it. It also returns the saga's
// execution in this process, or nil without one. With toTheEnd it returns only when that
// execution has ended, or when the caller need not wait any more.
//
// The goroutine that will execute the saga also stores it, so that the caller is woken only once.
// A separate goroutine for the write, which the caller can leave, would make a saga that runs
// alone take an eighth more time.
func (e *Engine) start(ctx context.Context, req journal.StartRequest, toTheEnd bool) (journal.Record, *execution, error) {
	l := e.current()
	if !l.isValid() && !e.isClosing() {
		return e.find(ctx, req)
	}
	if req.At.IsZero() {
		req.Engine = l.id
	}
	stored := make(chan *started, 1) // buffered: the caller may be gone
	over := make(chan struct{})
	if !e.begin(func() {
		defer close(over)
		e.storeAndCarry(ctx, l, &req, stored)
	}) {
		return journal.Record{}, nil, notStartedError(ErrClosed)
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
		return s.record, s.execution, s.err
	case <-ctx.Done():
		return left(ctx, stored)
	}
}

// left returns the knowledge of a caller whose ctx ended before the answer.
func left(ctx context.Context, stored <-chan *started) (journal.Record, *execution, error) {
	select {
	case s := <-stored:
		return s.record, s.execution, s.err
	default:
		return journal.Record{}, nil, fmt.Errorf("%w: start: %w", journal.ErrFateUnknown, errtext.Inner(Ended(ctx)))
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

// storeAndCarry stores the saga, tells stored of it, and executes it.
func (e *Engine) storeAndCarry(ctx context.Context, l *lease, req *journal.StartRequest, stored chan<- *started) {
	s := new(started)
	told := false
	defer func() {
		if !told { // the journal ended the goroutine
			s.err = fmt.Errorf("%w: start: %w", journal.ErrFateUnknown, errtext.Inner(&sdk.PanicError{Value: "runtime.Goexit"}))
			stored <- s
		}
	}()
	own := e.store(journal.Stay(ctx), l, req, s)
	told = true
	x := s.execution // s is the caller's now
	stored <- s
	if own {
		e.carry(x)
	}
}

// store stores the saga. If it returns true its execution is new, and the caller's to carry.
func (e *Engine) store(ctx context.Context, l *lease, req *journal.StartRequest, s *started) (own bool) {
	asked := time.Now()
	created, err := e.journalStart(ctx, req, &s.record)
	unknown := errors.Is(err, journal.ErrFateUnknown)
	for n := 0; errors.Is(err, journal.ErrFateUnknown) && n < 3 && pause(ctx, 50*time.Millisecond<<n); n++ {
		asked = time.Now()
		created, err = e.journalStart(ctx, req, &s.record)
	}
	if unknown && err != nil && !errors.Is(err, journal.ErrFateUnknown) { // the first start may have arrived
		err = fmt.Errorf("%w: %w", journal.ErrFateUnknown, errtext.Inner(err))
	}
	s.execution = e.executing(req.ID)
	switch {
	case err != nil && s.execution != nil: // the journal does not answer, and this process executes the saga
		s.record = s.execution.record
	case errors.Is(err, journal.ErrFateUnknown):
		e.seek(req.ID)
		s.err = fmt.Errorf("saga: start: %w", errtext.Inner(err))
		return false
	case err != nil:
		s.err = notStartedError(err)
		return false
	case created && req.Engine.IsZero(): // any engine gets it, at its time
		e.wakes.add(time.Now().Add(s.record.WakeAt.Sub(s.record.Now)))
		e.look()
	case created: // maybe by a call beside this one, with another input
		e.mu.Lock()
		s.execution, own = e.enlist(l, &s.record, startedHere, asked)
		e.mu.Unlock()
	}
	s.err = checkSameRequest(&s.record, req)
	return own
}

// journalStart stores the saga. The fate of the write is unknown if the journal panics.
func (e *Engine) journalStart(ctx context.Context, req *journal.StartRequest, r *journal.Record) (created bool, err error) {
	err = graph.Guarded(func() (err error) {
		*r, created, err = e.journal.Start(ctx, *req)
		return err
	})
	var panicked *sdk.PanicError
	if errors.As(err, &panicked) {
		e.tell(journal.Event{Kind: journal.EventPanic, Engine: req.Engine, ID: req.ID, Err: err})
		err = fmt.Errorf("%w: %w", journal.ErrFateUnknown, errtext.Inner(err))
	}
	return created, err
}
