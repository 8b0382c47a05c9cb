package sagatest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// Explore runs the saga with that input in every way that Explore knows. It tries each outcome of
// each call and undo, alone and before another step fails. In each of these runs it disturbs the
// saga before and after each write and each call. The process is killed, or paused for longer
// than its lease, and another process takes over. Or a person cancels the saga, in this process
// or in another one. If the saga has a [saga.Sleep] or a [saga.Await], the journal's clock also goes back there. The value of an Await is sent there,
// too, by another process; else in time, before the saga begins, just before and just after the end of its wait, and twice. Explore plays every run a second time with each request delivered twice. At
// the end of each run all requests arrive again, late. Calls that must succeed, as undos, also find no connection for a
// day, and a person retries the stuck saga when its callees have forgotten it. Explore fails the test for each run in
// which
//
//   - a call takes effect twice,
//   - a completed saga lacks an effect, or has one undone,
//   - a skipped step has an effect, or a saga skips other steps than when all goes well, although it skipped no
//     Optional step,
//   - a compensated saga has an effect that is not undone, or comes late,
//   - something is undone past the pivot, before the saga failed, or although
//     it was refused,
//   - a step is undone before one that ran after it,
//   - a step begins after Cancel has returned, or in a saga that goes back, or the
//     saga completes although Cancel has returned,
//   - a call is made before the plan is stored, or before the journal says that a sleep before it has ended,
//   - an item of a [saga.Each] is called before the journal has its name,
//   - an Await has another value than the one for which Send returned nil, has one though Send did not, or none though it
//     did, or has it long after it was sent,
//   - a sleep ends before its time or long after it, has another end for another owner, or keeps a cancelled saga waiting,
//   - a saga changes its status as it may not, its fence does not grow, or an
//     owner that lost it writes to it,
//   - the saga does not end, is stuck without a reason, or gives a Retriable step up,
//   - requests that are delivered twice make it end otherwise, undisturbed.
//
// Each item of a saga.Each is a step, as it is when all goes well.
//
// Callees are [Services]. They answer with the value of [Answer], or else with the zero value of
// a step's output. That is also the value that an Await is sent. The functions of the plan must accept this zero value. Steps that are
// functions run as they are, and their effects are not counted. One that ignores its ctx returns within 60 days of
// the virtual time, in which a saga has to end without it. They must not touch anything
// outside of the process, since time is virtual.
//
// A saga of four steps takes seconds: Explore makes about fifteen thousand runs. Options are
// [Answer]s.
func Explore[In, Out any](t *testing.T, d *saga.Definition[In, Out], in In, options ...Option) {
	t.Helper()
	newExplorer(d, in, options).test(t)
}

// test explores, and fails t if it finds something wrong.
func (e *explorer) test(t *testing.T) {
	t.Helper()
	found := e.explore(t)
	for _, v := range found[:min(len(found), 10)] {
		t.Error(v)
	}
	if len(found) > 10 {
		t.Errorf("… and %d more", len(found)-10)
	}
	t.Logf("sagatest: explored %d runs", e.runs)
}

// ExploreCalls is [Explore] for a saga whose functions make calls. build returns the saga for a
// process that makes its calls with client. build must return the same saga each time. services
// are the names of the services that functions call.
//
// All calls of a function count as its step. A saga that is compensated must have undone
// the effect of each of them.
func ExploreCalls[In, Out any](
	t *testing.T, services []string, build func(client *sdk.Client) *saga.Definition[In, Out], in In, options ...Option,
) {
	t.Helper()
	e, err := newCallsExplorer(services, build, in, options)
	if err != nil {
		t.Fatal(err)
	}
	e.test(t)
}

func newCallsExplorer[In, Out any](
	services []string, build func(client *sdk.Client) *saga.Definition[In, Out], in In, options []Option,
) (*explorer, error) {
	client, err := NewServices().Client(services...)
	if err != nil {
		return nil, err
	}
	e := newExplorer(build(client), in, options)
	e.services = services
	e.build = func(client *sdk.Client) (saga.AnyDefinition, runFunc) {
		d := build(client)
		return d, runOf(d, in)
	}
	return e, nil
}

// An Option changes an exploration.
type Option func(*explorer)

// Answer sets what the call of a step returns; v is encoded as JSON. That of a [saga.Each] holds for all items without one.
func Answer(step string, v any) Option {
	return func(e *explorer) {
		data, err := json.Marshal(v)
		if err != nil {
			e.mistakes = append(e.mistakes, fmt.Sprintf("Answer(%q): %v", step, err))
		}
		e.answers[step] = string(data)
		e.answered = append(e.answered, step)
	}
}

// An explorer plays scenarios of one saga.
type explorer struct {
	id         journal.ID // of the one saga of each scenario
	steps      []saga.StepInfo
	undoBudget time.Duration
	timeout    time.Duration // of the saga; 0: none
	shortest   time.Duration // of the saga's and its steps' times; 0: there are none
	lease      time.Duration // of the engines
	// build returns the definition of a process, and the function that runs it.
	build    func(client *sdk.Client) (saga.AnyDefinition, runFunc)
	services []string // that functions call; nil: functions call none
	answers  map[string]string
	answered []string // the steps that have an Answer
	plan     journal.PlanRecord
	mistakes []string

	// Tests of Explore replace the links between the monitor and the journal, and between
	// processes and services, with broken ones.
	breakJournal func(journal.Journal) journal.Journal
	breakNetwork func(roundTripper) roundTripper
	quick        bool          // stop at the first violation
	only         string        // scenario that is played; "": all
	every        int           // play about one of so many scenarios, chosen at random; 0: all
	disturb      []disturbance // those to play; nil: all
	played       func(s scenario)

	mu      sync.Mutex
	skipped map[string]bool // the steps that are skipped when all goes well; nil: that was not played
	runs    int
	found   []string
}

func newExplorer[In, Out any](d *saga.Definition[In, Out], in In, options []Option) *explorer {
	e := &explorer{
		id: journal.IDOf("", d.Name(), exploreKey), plan: d.Plan(), steps: d.Steps(), undoBudget: d.UndoBudget(), timeout: d.Timeout(), shortest: d.Timeout(), answers: make(map[string]string),
		build: func(*sdk.Client) (saga.AnyDefinition, runFunc) { return d, runOf(d, in) },
	}
	for _, s := range e.steps {
		e.answers[s.Name] = string(s.ZeroOutput)
		if s.Timeout > 0 && (e.shortest == 0 || s.Timeout < e.shortest) {
			e.shortest = s.Timeout
		}
	}
	e.lease = fitLease(e.shortest)
	for _, option := range options {
		option(e)
	}
	return e
}

// A runFunc runs the saga in an engine.
type runFunc func(ctx context.Context, e *saga.Engine, key childkey.Key) error

func runOf[In, Out any](d *saga.Definition[In, Out], in In) runFunc {
	return func(ctx context.Context, e *saga.Engine, key childkey.Key) error {
		_, err := d.Run(ctx, e, key, in)
		return err
	}
}

// explore plays all scenarios, on all processors, and returns what went wrong.
func (e *explorer) explore(t *testing.T) []string {
	if len(e.mistakes) == 0 {
		e.playWell(t)
	}
	if mistakes := append(e.unknownAnswers(), e.mistakes...); len(mistakes) > 0 {
		return mistakes
	}
	queue := make(chan scenario)
	t.Run("explore", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for s := range queue {
					synctest.Test(t, func(t *testing.T) {
						e.disturbEverywhere(t.Context(), s)
						time.Sleep(2 * patience) // functions that did not return end too
					})
				}
			})
		}
		go func() {
			for _, s := range e.scenarios() {
				if (e.only == "" || e.only == s.name) && (e.every == 0 || rand.IntN(e.every) == 0) {
					queue <- s
				}
			}
			close(queue)
		}()
	})
	return e.found
}

// A run with more points than maxPoints lasted for a day or more of virtual time. It takes long
// to play, and its points are similar. So Explore only kills its process, at the first points.
const maxPoints, firstPoints = 60, 20

// disturbEverywhere plays a scenario as it is, and with each disturbance at each point, each
// time with every request delivered once and delivered twice, in one bubble.
func (e *explorer) disturbEverywhere(ctx context.Context, s scenario) {
	base := e.play(ctx, s)
	s.twice = true
	if twice := e.play(ctx, s); twice.status != base.status {
		e.report(s, fmt.Sprintf("the saga is %v in the end, and %v if no request is delivered twice", twice.status, base.status))
	}
	disturbances, points := []disturbance{kill, pause, cancel, cancelHere}, base.points
	awaits := slices.ContainsFunc(e.steps, saga.StepInfo.IsAwait)
	if awaits || slices.ContainsFunc(e.steps, saga.StepInfo.IsSleep) {
		disturbances = append(disturbances, turnBack)
	}
	if awaits && s.sending == sentInTime {
		disturbances = append(disturbances, sendHere)
	}
	if e.disturb != nil {
		disturbances = e.disturb
	}
	if points > maxPoints {
		disturbances, points = disturbances[:1], firstPoints
	}
	if s.retried > 0 { // days of polls each
		points = min(points, 2)
	}
	for _, d := range disturbances {
		for point := range points {
			if e.hasEnough() {
				return
			}
			s.disturbance, s.point = d, point+1
			for _, s.twice = range []bool{false, true} {
				e.play(ctx, s)
			}
		}
	}
}

func (e *explorer) hasEnough() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.quick && len(e.found) > 0
}

func (e *explorer) report(s scenario, violations ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range violations {
		e.found = append(e.found, s.String()+": "+v)
	}
}

// play plays one scenario.
func (e *explorer) play(ctx context.Context, s scenario) outcome {
	o := e.inBubble(ctx, s)
	e.mu.Lock()
	e.runs++
	if e.played != nil {
		e.played(s)
	}
	e.mu.Unlock()
	e.report(s, o.violations...)
	return o
}

// An outcome is how a scenario ended.
type outcome struct {
	status     journal.Status // 0: no saga was stored
	record     journal.Record
	points     int // the points at which the run could have been disturbed
	violations []string
}

// A disturbance is an event that hits the first process at one point.
type disturbance uint8

const (
	none       disturbance = iota
	kill                   // the process is gone
	pause                  // the process stands still for longer than its lease, and continues
	cancel                 // a person cancels the saga, in another process
	cancelHere             // a person cancels the saga, in the process that runs it
	turnBack               // the journal's clock goes back; only of a saga that sleeps or awaits signals
	sendHere               // another process sends all signals
)

// A scenario is one way to run the saga.
type scenario struct {
	name        string
	faults      map[string][]Fault // by step
	undoFaults  map[string][]Fault
	mayStick    bool          // there is a reason to be stuck
	completes   bool          // the saga completes, unless it is cancelled
	signal      string        // that is sent in another way
	sending     sending       // that way
	retried     time.Duration // after that time a person retries the stuck saga; 0: nobody does
	twice       bool
	disturbance disturbance
	point       int // counts from 1
}

func (s scenario) String() string {
	var b strings.Builder
	b.WriteString(s.name)
	if s.twice {
		b.WriteString(", each request delivered twice")
	}
	if s.disturbance != none {
		what := map[disturbance]string{
			kill: "killed", pause: "paused", cancel: "cancelled", cancelHere: "cancelled by itself", turnBack: "its clock goes back",
			sendHere: "sent its signals",
		}[s.disturbance]
		fmt.Fprintf(&b, ", %s at point %d", what, s.point)
	}
	return b.String()
}
