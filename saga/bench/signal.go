package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool" //nolint:depguard // a program that measures, and nobody's caller

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// signalled run the three steps with a wait for a signal after the first one.
var signalled = []contender{
	{name: ourSteps.name, open: openSignal},
	{name: dbosSteps.name, open: openDBOSSignal},
}

func signalConditions(e effort) string {
	return fmt.Sprintf("Each saga waits for a signal after the first of its three steps. It is sent %v after this step ran. What it costs: %s"+
		" How many a second: %s Signal is the time from the call of Send to the second step, for half of a round's sagas and for 99 %% of them."+
		" DBOS receives in a savepoint, which has an ID of its own: one of its commits is none.",
		pause, costConditions(e), rateConditions(e))
}

// A signalEngine sends its sagas the signals that they wait for.
type signalEngine struct {
	engine
	runAs func(ctx context.Context, key childkey.Key, in int) (int, error)
	send  func(ctx context.Context, key childkey.Key, v int) error
	*visits
}

// run gives each saga a number of its own as its input. The signal's value is the result of the first
// step, and the input of the second one.
func (s *signalEngine) run(ctx context.Context, in int) (int, error) {
	key, err := childkey.New()
	if err != nil {
		return 0, err
	}
	v := s.begin()
	defer s.finish(v)
	sending, stop := context.WithCancel(ctx)
	defer stop()
	sent := make(chan error, 1)
	go func() { sent <- s.sendOnce(sending, key, v) }()
	out, err := s.runAs(ctx, key, v.number)
	if err != nil {
		stop()
	}
	return out - v.number + in, errors.Join(err, <-sent)
}

// sendOnce sends the signal a pause after the first step. Until then engines write what they know, and wait.
func (s *signalEngine) sendOnce(ctx context.Context, key childkey.Key, v *visit) error {
	select {
	case result := <-v.asks:
		time.Sleep(pause)
		v.sent = time.Now()
		return s.send(ctx, key, result)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// visits are the sagas of an engine, as their steps and their callers see them.
type visits struct {
	mu     sync.Mutex
	last   int // number
	open   map[int]*visit
	delays []time.Duration // of signals
}

func newVisits() *visits { return &visits{open: make(map[int]*visit)} }

type visit struct {
	number  int
	asks    chan int       // the result of the first step
	sent    time.Time      // when Send was called
	arrived chan time.Time // when the second step began
}

func (s *visits) begin() *visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	v := &visit{number: s.last, asks: make(chan int, 1), arrived: make(chan time.Time, 1)}
	s.open[v.number] = v
	return v
}

func (s *visits) finish(v *visit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, v.number)
	select {
	case at := <-v.arrived:
		s.delays = append(s.delays, at.Sub(v.sent))
	default: // the saga failed
	}
}

func (s *visits) find(number int) (*visit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.open[number]
	if v == nil {
		return nil, fmt.Errorf("nobody runs saga %d", number)
	}
	return v, nil
}

// takeDelays returns the delays of the signals since it was called last.
func (s *visits) takeDelays() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	delays := s.delays
	s.delays = nil
	return delays
}

// first is the work of the step before the wait.
func (s *visits) first(n int) (int, error) {
	v, err := s.find(n)
	if err != nil {
		return 0, err
	}
	out := increment(n)
	offer(v.asks, out)
	return out, nil
}

// second is the work of the step that gets the signal's value.
func (s *visits) second(n int) (int, error) {
	at := time.Now()
	v, err := s.find(n - 1)
	if err != nil {
		return 0, err
	}
	offer(v.arrived, at)
	return increment(n), nil
}

// offer puts v into a channel that holds one value. An engine that runs a step twice does not hang here.
func offer[T any](to chan T, v T) {
	select {
	case to <- v:
	default:
	}
}

// patience is how long a saga waits at most. DBOS wants a limit. Ours is given up for the wait, because the limit is
// longer than a lease.
const patience = time.Minute

var answered = saga.NewSignal[int]("caller.answered")

func openSignal(ctx context.Context, config *pgxpool.Config) (engine, error) {
	known := newVisits()
	d := saga.MustDefine("signal", 1, func(b *saga.Builder[int, int]) {
		first := saga.StepFunc(b, "callee.first", b.Input(), func(_ context.Context, call saga.Call[int]) (int, error) {
			return known.first(call.Input)
		}).UndoFunc("callee.undo-first", undoStep)
		answer := saga.Await(b, answered).After(first).Timeout(patience)
		second := saga.StepFunc(b, "callee.second", answer.Output(), func(_ context.Context, call saga.Call[int]) (int, error) {
			return known.second(call.Input)
		}).UndoFunc("callee.undo-second", undoStep)
		third := saga.StepFunc(b, "callee.third", second.Output(), runStep)
		saga.Return(b, third.Output())
	})
	s, err := openSagas(ctx, config, d)
	if err != nil {
		return nil, err
	}
	send := func(ctx context.Context, key childkey.Key, v int) error {
		return answered.Send(ctx, s.engine, journal.IDOf("", d.Name(), key), v)
	}
	return &signalEngine{s, s.runAs, send, known}, nil
}

const dbosTopic = "answered"

func openDBOSSignal(ctx context.Context, config *pgxpool.Config) (engine, error) {
	known := newVisits()
	d, err := openDBOS(ctx, config, func(ctx dbos.Context, n int) (int, error) {
		_, err := runDBOSStep(ctx, "first", func() (int, error) { return known.first(n) })
		if err != nil {
			return 0, err
		}
		answer, err := dbos.Recv[int](ctx, dbosTopic, patience)
		if err != nil {
			return 0, err
		}
		out, err := runDBOSStep(ctx, "second", func() (int, error) { return known.second(answer) })
		if err != nil {
			return 0, err
		}
		return runDBOSSteps(ctx, out, "third")
	})
	if err != nil {
		return nil, err
	}
	send := func(_ context.Context, key childkey.Key, v int) error {
		return dbos.Send(d.runtime, key.String(), v, dbosTopic)
	}
	return &signalEngine{d, d.runAs, send, known}, nil
}
