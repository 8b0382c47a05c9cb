package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// An ear is what an execution knows of its saga's signals.
type ear struct {
	heard map[string]journal.Signal // by name
	read  map[string]bool           // the signals that were read since their wait began
	again time.Time                 // when to ask the journal again, which did not answer; zero: it did

	waits atomic.Bool   // it waits in memory, and wants to be told
	rung  chan struct{} // there is news; nil: the plan awaits nothing
	mu    sync.Mutex
	news  []journal.Signal
}

func (e *ear) open() {
	e.heard, e.read, e.rung = make(map[string]journal.Signal), make(map[string]bool), make(chan struct{}, 1)
}

// tell leaves news for the execution.
func (e *ear) tell(s journal.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.news = append(e.news, s)
	select {
	case e.rung <- struct{}{}:
	default:
	}
}

// hear takes the news in.
func (e *ear) hear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.news {
		e.note(s)
	}
	e.news = nil
}

func (e *ear) note(s journal.Signal) { e.heard[s.Name] = s }

// hasNews reports whether there is news that the execution has not taken in.
func (e *ear) hasNews() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.news) > 0
}

// moveAwait ends an await once its signal is there, or its time is over. passed says that the steps behind it may begin.
// The journal is read when a wait begins, so that a saga sleeps only if its row says of each later signal that it is due.
func (x *execution) moveAwait(s *graph.Step) (passed bool, err error) {
	p, now := x.progress, x.now()
	l := &p.forward[s.Index]
	switch {
	case !p.isEnabled(s):
		return false, nil
	case l.retryAt.IsZero():
		if refused, err := x.refuseAwait(s, now); refused || err != nil {
			return false, err
		}
		l.retryAt = p.wakeOf(s, cmp.Or(s.Wait, graph.MaxDuration), now)
	}
	signal, sent := x.ear.heard[s.Name]
	if over := s.Wait > 0 && !now.Before(l.retryAt); !sent && (over || !x.ear.read[s.Name]) && !now.Before(x.ear.again) {
		x.askJournal(s, over)
		signal, sent = x.ear.heard[s.Name]
	}
	switch {
	case !sent:
		x.ear.waits.Store(true)
		return false, nil
	case signal.Corrupt != nil:
		return false, x.unreadable(s, signal.Corrupt)
	case signal.Value == nil:
		l.conclude(retry.NotSent, now)
		l.last.Detail, l.last.Skipped = "nobody has sent it in time", s.Optional
	default:
		if err := s.Output.Check(signal.Value); errors.Is(err, journal.ErrNewer) {
			return false, x.unreadable(s, err)
		} else if err != nil {
			l.conclude(retry.Rejected, now)
			l.last.Detail = detail(fmt.Errorf("its value cannot be read: %w", errtext.Inner(err)))
			break
		}
		l.conclude(retry.Completed, now)
		l.result = signal.Value
	}
	x.must = true
	if l.isPassed() && p.isCommitted() { // what comes next has its own time
		p.renew(now)
	}
	return l.isPassed(), nil
}

// unreadable returns the error of a signal that this process cannot read, once no call runs: their outcomes are written first.
func (x *execution) unreadable(s *graph.Step, err error) error {
	if x.progress.running > 0 {
		return nil
	}
	return fmt.Errorf("signal %s: %w", s.Name, err)
}

// refuseAwait ends an await whose condition panics, as the input of a call fails the call.
func (x *execution) refuseAwait(s *graph.Step, now time.Time) (refused bool, err error) {
	if s.When == nil {
		return false, nil
	}
	input, err := x.inputOf(s)
	panicked, refused := input.(*sdk.PanicError)
	if refused {
		x.progress.forward[s.Index].conclude(retry.Rejected, now)
		x.progress.forward[s.Index].last.Detail = detail(fmt.Errorf("condition: %w", panicked))
		x.must = true
	}
	return refused, err
}

// askJournal reads the signals of the saga. If the time of an await is over it ends the wait instead: then the journal
// says which was first, the value or the end.
func (x *execution) askJournal(s *graph.Step, over bool) {
	var found []journal.Signal
	var err error
	if over {
		found = make([]journal.Signal, 1)
		found[0], err = x.engine.journal.EndWait(x.lease.ctx, x.owner, s.Name)
	} else {
		found, err = x.engine.journal.Signals(x.lease.ctx, []journal.ID{x.owner.ID})
	}
	switch {
	case errors.Is(err, journal.ErrLeaseLost):
		x.evict()
		return
	case err != nil:
		x.ear.again = x.now().Add(x.lease.length / 10)
		x.engine.tell(journal.Event{Kind: journal.EventJournalError, Engine: x.owner.Engine, ID: x.owner.ID, Err: err})
		return
	}
	x.ear.again = time.Time{}
	x.ear.read[s.Name] = true
	for _, f := range found {
		x.ear.note(f)
	}
}

// askAgain has the decision wake when the journal, which did not answer about signals, is to be asked again.
func (x *execution) askAgain(d *decision) {
	if !x.ear.again.IsZero() {
		now := x.now()
		d.sooner(later(x.ear.again, now.Add(time.Millisecond)), now)
	}
}

// hearSignals wakes, until ctx ends, sagas whose signals were stored without waking them, and tells the executions that
// wait in memory of the signals of their sagas.
func (e *Engine) hearSignals(ctx context.Context) {
	if !slices.ContainsFunc(e.cfg.Plans, (*graph.Plan).HasAwaits) {
		return
	}
	for pause(ctx, e.poll()) {
		if err := e.hearOnce(ctx); err != nil && ctx.Err() == nil {
			e.tell(journal.Event{Kind: journal.EventJournalError, Engine: e.current().id, Err: err})
		}
	}
}

func (e *Engine) hearOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(lookTimeout, e.cfg.Lease/3))
	defer cancel()
	return graph.Guarded(func() error {
		n, err := e.journal.WakeSignalled(ctx)
		if n > 0 {
			e.look()
		}
		if err != nil {
			return err
		}
		for ids := range slices.Chunk(e.awaiting(), lookBatch) {
			found, err := e.journal.Signals(ctx, ids)
			if err != nil {
				return err
			}
			for _, s := range found {
				e.deliver(s)
			}
		}
		return nil
	})
}

// awaiting returns the sagas that wait for a signal in memory.
func (e *Engine) awaiting() (ids []journal.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, x := range e.executions {
		if x.ear.waits.Load() {
			ids = append(ids, id)
		}
	}
	return ids
}

// deliver tells the execution of the saga, if this process has one that waits for signals.
func (e *Engine) deliver(s journal.Signal) {
	if x := e.executing(s.ID); x != nil && x.ear.rung != nil {
		x.ear.tell(s)
	}
}

// onSent lets a signal that this process has stored take effect at once.
func (e *Engine) onSent(s journal.Signal) {
	e.deliver(s)
	e.look()
}

// Send stores the value of a signal for a saga. If the saga's definition is known, it must await a value of that type.
func (o *Operator) Send(ctx context.Context, s journal.Signal, of reflect.Type) error {
	if len(o.plans) > 0 {
		found, err := o.journal.ReadOutlines(ctx, []journal.ID{s.ID})
		if err != nil {
			return err
		}
		for _, r := range found {
			if p := o.plans[r.Plan]; p != nil {
				if err := checkSignal(p, r, s.Name, of); err != nil {
					return err
				}
			}
		}
	}
	return o.send(ctx, s, journal.Audit{})
}

// Signal is Send in a person's name, for a saga that is there.
func (o *Operator) Signal(ctx context.Context, id journal.ID, name string, value any, by journal.Audit) (journal.Record, error) {
	by.Verb, by.Step = journal.VerbSignal, name
	if err := checkAudit(by); err != nil {
		return journal.Record{}, err
	}
	r, err := o.journal.Read(ctx, id)
	if err != nil {
		return r, err
	}
	if r.Corrupt != nil { // a process that cannot open the saga seals no value that an engine would open
		return r, r.Corrupt
	}
	data, err := contract.Encode(value)
	if err == nil && len(data) > journal.MaxResultBytes {
		err = fmt.Errorf("%d bytes, at most %d", len(data), journal.MaxResultBytes)
	}
	p := o.plans[r.Plan]
	if err == nil && p != nil && checkSignal(p, r, name, nil) == nil {
		err = p.Find(name).Output.Check(data)
	}
	if err != nil {
		return r, fmt.Errorf("%w: signal %s: %w", ErrEncode, name, errtext.Inner(err))
	}
	if err := checkRevision(by, r); err != nil {
		return r, err
	}
	if p, err = o.planOf(ctx, r); err != nil {
		return r, err
	}
	if err := checkSignal(p, r, name, nil); err != nil {
		return r, err
	}
	by.Revision = 0
	if err := o.send(ctx, journal.Signal{ID: id, Name: name, Value: data}, by); err != nil {
		return r, err
	}
	return o.journal.Read(ctx, id)
}

func (o *Operator) send(ctx context.Context, s journal.Signal, by journal.Audit) error {
	err := o.journal.Send(ctx, s, by)
	if err == nil && o.sent != nil {
		o.sent(s)
	}
	return err
}

// checkSignal returns an error unless the plan of the saga in r awaits the signal, with a value of that type; nil: of any type.
func checkSignal(p *graph.Plan, r journal.Record, name string, of reflect.Type) error {
	switch s := p.Find(name); {
	case s == nil || !s.IsAwait():
		return fmt.Errorf("%w: saga %s version %d does not await %q", ErrSignal, r.Name, r.Version, name)
	case of != nil && s.Of != nil && s.Of != of:
		return fmt.Errorf("%w: saga %s version %d awaits %s with a %v, not a %v", ErrSignal, r.Name, r.Version, name, s.Of, of)
	}
	return nil
}

// ErrSignal is what is wrong with a signal itself. The front says what it means.
var ErrSignal = errors.New("saga: no such signal")
