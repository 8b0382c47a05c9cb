package saga_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

var (
	someone = journal.Audit{Actor: "ann", Reason: "a test"}
	basket  = order{SKU: "a-1", Cents: 100}
)

// A stage is what a test of the engine plays on: in a bubble, where time is
// virtual.
type stage struct {
	*testing.T
	services *sagatest.Services
	journal  *memjournal.Journal
	events   *events
	names    []string // of the definitions that an engine was opened with
}

// inBubble plays a test in a bubble, with a fixed part of each random wait.
func inBubble(t *testing.T, play func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		play(&stage{T: t, services: sagatest.NewServices(), journal: memjournal.New(), events: &events{}})
	})
}

// open opens an engine, and closes it with the test.
func (s *stage) open(definitions ...saga.AnyDefinition) *saga.Engine {
	s.Helper()
	return s.openOn(s.journal, definitions...)
}

func (s *stage) openOn(j journal.Journal, definitions ...saga.AnyDefinition) *saga.Engine {
	s.Helper()
	return s.openWith(j, saga.Config{Definitions: definitions})
}

func (s *stage) openWith(j journal.Journal, cfg saga.Config) *saga.Engine {
	s.Helper()
	client, err := s.services.Client("inventory", "payment", "shipping", "mail")
	require.NoError(s, err)
	if cfg.Observer == nil {
		cfg.Observer = s.events
	}
	cfg.Client, cfg.Rand = client, func() float64 { return 0.5 }
	for _, d := range cfg.Definitions {
		if named, ok := d.(interface{ Name() string }); ok {
			s.names = append(s.names, named.Name())
		}
	}
	e, err := saga.Open(s.Context(), j, cfg)
	require.NoError(s, err)
	s.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

func key(t *testing.T, text string) childkey.Key {
	t.Helper()
	k, err := childkey.Parse(text)
	require.NoError(t, err)
	return k
}

// enqueue stores a saga that no engine has started, as a transaction does.
func enqueue[In, Out any](s *stage, d *saga.Definition[In, Out], text string, in In) journal.ID {
	s.Helper()
	req, err := d.Request(key(s.T, text), in)
	require.NoError(s, err)
	_, created, err := s.journal.Start(s.Context(), req)
	require.NoError(s, err)
	require.True(s, created)
	return req.ID
}

// id is the ID of the saga with that key, of whichever definition; of a checkout if
// there is none.
func (s *stage) id(text string) journal.ID {
	s.Helper()
	for _, name := range s.names {
		id := journal.IDOf("", name, key(s.T, text))
		if _, err := s.journal.Read(context.WithoutCancel(s.Context()), id); err == nil {
			return id
		}
	}
	return journal.IDOf("", "checkout", key(s.T, text))
}

func (s *stage) read(text string) journal.Record {
	s.Helper()
	r, err := s.journal.Read(s.Context(), s.id(text))
	require.NoError(s, err)
	return r
}

// until waits until the saga has that status.
func (s *stage) until(text string, status journal.Status) journal.Record {
	s.Helper()
	for range 10_000 {
		if r := s.read(text); r.Status == status {
			return r
		}
		time.Sleep(time.Second)
	}
	s.Fatalf("saga is %v, want %v", s.read(text).Status, status)
	return journal.Record{}
}

// untilDeferred waits until a build has deferred the saga, and left it.
func (s *stage) untilDeferred(text string) journal.Record {
	s.Helper()
	for range 10_000 {
		if r := s.read(text); r.Deferred != nil {
			return r
		}
		time.Sleep(time.Second)
	}
	s.Fatalf("saga is %v and not deferred", s.read(text).Status)
	return journal.Record{}
}

func (s *stage) effects(step string) (done, undone int) {
	e := s.services.Effects(step)
	return e.Done, e.Undone
}

func (s *stage) wantEffects(step string, done, undone int) {
	s.Helper()
	if d, u := s.effects(step); d != done || u != undone {
		s.Errorf("%s took effect %d times and was undone %d times, want %d and %d", step, d, u, done, undone)
	}
}

// events remembers what an observer hears.
type events struct {
	mu     sync.Mutex
	tries  []saga.Event
	moves  []saga.Event
	engine []saga.Event
}

func (e *events) Observe(_ context.Context, event saga.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch event.Kind {
	case saga.EventAttempt:
		e.tries = append(e.tries, event)
	case saga.EventMoved:
		e.moves = append(e.moves, event)
	default:
		e.engine = append(e.engine, event)
	}
}

func (e *events) count(kind journal.EventKind) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.engine {
		if event.Kind == kind {
			n++
		}
	}
	return n
}

// first returns the first event of that kind.
func (e *events) first(kind journal.EventKind) saga.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.engine {
		if event.Kind == kind {
			return event
		}
	}
	return saga.Event{}
}

// A tapped journal counts calls, and lets a test fail them: before they happen,
// or after, as if the answer was lost.
type tapped struct {
	journal.Journal
	mu     sync.Mutex
	calls  map[string]int
	before func(method string, n int) error // n counts from 1
	after  func(method string, n int) error
}

func tap(j journal.Journal) *tapped { return &tapped{Journal: j, calls: make(map[string]int)} }

func (j *tapped) count(method string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.calls[method]
}

func (j *tapped) enter(method string) (n int, err error) {
	j.mu.Lock()
	j.calls[method]++
	n = j.calls[method]
	j.mu.Unlock()
	if j.before != nil {
		err = j.before(method, n)
	}
	return n, err
}

func (j *tapped) leave(method string, n int, err error) error {
	if err == nil && j.after != nil {
		err = j.after(method, n)
	}
	return err
}

func (j *tapped) Plan(ctx context.Context, plan journal.PlanRecord) (journal.PlanRecord, error) {
	n, err := j.enter("Plan")
	if err != nil {
		return journal.PlanRecord{}, err
	}
	stored, err := j.Journal.Plan(ctx, plan)
	return stored, j.leave("Plan", n, err)
}

func (j *tapped) Start(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
	n, err := j.enter("Start")
	if err != nil {
		return journal.Record{}, false, err
	}
	r, created, err := j.Journal.Start(ctx, req)
	return r, created, j.leave("Start", n, err)
}

func (j *tapped) Append(ctx context.Context, o journal.Owner, w journal.Write) error {
	n, err := j.enter("Append")
	if err != nil {
		return err
	}
	return j.leave("Append", n, j.Journal.Append(ctx, o, w))
}

func (j *tapped) Claim(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
	n, err := j.enter("Claim")
	if err != nil {
		return nil, err
	}
	claimed, err := j.Journal.Claim(ctx, req)
	return claimed, j.leave("Claim", n, err)
}

func (j *tapped) Heartbeat(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
	n, err := j.enter("Heartbeat")
	if err != nil {
		return err
	}
	return j.leave("Heartbeat", n, j.Journal.Heartbeat(ctx, engine, lease))
}

func (j *tapped) ReadOutlines(ctx context.Context, ids []journal.ID) ([]journal.Record, error) {
	n, err := j.enter("ReadOutlines")
	if err != nil {
		return nil, err
	}
	found, err := j.Journal.ReadOutlines(ctx, ids)
	return found, j.leave("ReadOutlines", n, err)
}

func (j *tapped) Read(ctx context.Context, id journal.ID) (journal.Record, error) {
	n, err := j.enter("Read")
	if err != nil {
		return journal.Record{}, err
	}
	r, err := j.Journal.Read(ctx, id)
	return r, j.leave("Read", n, err)
}

func (j *tapped) Leave(ctx context.Context, engine journal.EngineID) error {
	n, err := j.enter("Leave")
	if err != nil {
		return err
	}
	return j.leave("Leave", n, j.Journal.Leave(ctx, engine))
}

func (j *tapped) Send(ctx context.Context, signal journal.Signal, by journal.Audit) error {
	n, err := j.enter("Send")
	if err != nil {
		return err
	}
	return j.leave("Send", n, j.Journal.Send(ctx, signal, by))
}

func (j *tapped) EndWait(ctx context.Context, o journal.Owner, name string) (journal.Signal, error) {
	n, err := j.enter("EndWait")
	if err != nil {
		return journal.Signal{}, err
	}
	stored, err := j.Journal.EndWait(ctx, o, name)
	return stored, j.leave("EndWait", n, err)
}

func (j *tapped) Signals(ctx context.Context, ids []journal.ID) ([]journal.Signal, error) {
	n, err := j.enter("Signals")
	if err != nil {
		return nil, err
	}
	found, err := j.Journal.Signals(ctx, ids)
	return found, j.leave("Signals", n, err)
}

func (j *tapped) WakeSignalled(ctx context.Context) (int, error) {
	n, err := j.enter("WakeSignalled")
	if err != nil {
		return 0, err
	}
	woken, err := j.Journal.WakeSignalled(ctx)
	return woken, j.leave("WakeSignalled", n, err)
}
