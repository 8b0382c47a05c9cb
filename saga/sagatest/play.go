package sagatest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
)

// patience is how long a saga may take, with all budgets used up.
const patience = 30 * 24 * time.Hour

// A take-over comes after the owner's lease. So the lease is a part of the shortest time that the plan gives, and no
// step runs out of its Timeout because its process was killed. An engine heartbeats and polls all the time, and a saga may
// take days of it: a lease that fits is not shorter than leastLease. The times of a plan that needs one can run out.
const (
	leastLease, longestLease = 15 * time.Second, 5 * time.Minute
	leasesPerTimeout         = 4
)

// fitLease returns the lease for a plan whose shortest time is that; 0: it has none.
func fitLease(shortest time.Duration) time.Duration {
	if lease := shortest / leasesPerTimeout; lease >= leastLease {
		return min(lease, longestLease)
	}
	return longestLease
}

// fits reports whether a take-over leaves the plan its times.
func (e *explorer) fits() bool { return e.shortest == 0 || e.shortest >= leasesPerTimeout*e.lease }

var exploreKey = childkey.MustParse("explore")

// inBubble plays a scenario with two processes, and checks how it ended.
func (e *explorer) inBubble(ctx context.Context, s scenario) outcome {
	services := e.servicesOf(s)
	var behind atomic.Int64 // of the journal's clock
	var j journal.Journal = memjournal.NewWith(memjournal.Config{Now: func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }})
	if e.breakJournal != nil {
		j = e.breakJournal(j)
	}
	watch := &monitor{
		Journal: j, network: services, services: services, id: e.id, budget: e.undoBudget, steps: e.steps,
		called: make(map[string]bool), leases: make(map[journal.EngineID]time.Time),
		sleepEnds: make(map[string]time.Time), told: make(map[string]*told), retried: s.retried > 0,
	}

	end := make(chan struct{})
	first, err := e.process(ctx, watch, e.networkOf(watch), end)
	if err != nil {
		return outcome{violations: []string{err.Error()}}
	}
	second, err := e.process(ctx, watch, e.networkOf(watch), end)
	if err != nil {
		return outcome{violations: []string{err.Error()}}
	}
	first.disturb, first.point = s.disturbance, s.point
	desk := second
	if s.disturbance == cancelHere {
		desk = first
	}
	first.turn = func() {
		watch.turnClock(ctx)
		behind.Store(int64(setBack))
	}
	first.send = func() { e.sendAll(ctx, watch) }
	if s.disturbance != sendHere {
		e.sendSignals(ctx, s, watch, end)
	}
	first.cancel = func() { desk.cancelSaga(ctx, watch) }
	err = e.run(ctx, first, second)
	processes := []*living{first, second}
	if s.retried > 0 && errors.Is(err, saga.ErrStuck) {
		s.mayStick = s.mayStick || s.disturbance != none // a process that died may have sent the call
		var third *living
		third, err = e.retryLate(ctx, s, first, second, end)
		processes = append(processes, third)
	}
	r, readErr := j.Read(ctx, watch.id)
	e.sendAll(ctx, watch) // late
	close(end)
	for _, p := range processes {
		p.close()
	}
	time.Sleep(24 * time.Hour) // calls that nobody waits for end too

	o := outcome{status: r.Status, record: r, points: first.pointCount(), violations: watch.notes()}
	if readErr != nil {
		o.violations = append(o.violations, "the saga was not stored: "+readErr.Error())
		return o
	}
	if r.Status == journal.Completed && watch.isCancelled() {
		o.violations = append(o.violations, "the saga completed, and Cancel had returned")
	}
	o.violations = append(o.violations, e.check(s, r, err, services)...)
	if len(o.violations) == 0 && r.Status.Final() {
		services.DeliverAgain()
		for _, v := range e.check(s, r, err, services) {
			o.violations = append(o.violations, "after each request came once more, late: "+v)
		}
	}
	return o
}

// retryLate has a person retry the stuck saga in a third process, which is the second one started anew, when its services
// have forgotten it. Nobody polls meanwhile.
func (e *explorer) retryLate(ctx context.Context, s scenario, first, second *living, end <-chan struct{}) (*living, error) {
	if s.disturbance != kill {
		first.close()
	}
	second.close()
	time.Sleep(s.retried)
	third, err := e.process(ctx, second.watch, second.network, end)
	if err != nil {
		return second, err
	}
	if _, err := third.engine.Retry(ctx, e.id, journal.Audit{Actor: "sagatest", Reason: "a scenario"}); err != nil {
		return third, err
	}
	return third, e.runAgain(ctx, third)
}

// servicesOf returns the services of a scenario, with its faults.
func (e *explorer) servicesOf(s scenario) *Services {
	services := NewServices()
	for step, body := range e.answers {
		services.Answer(step, body)
	}
	for step, faults := range s.faults {
		services.Script(step, faults...)
	}
	for step, faults := range s.undoFaults {
		services.ScriptUndo(step, faults...)
	}
	services.setTwice(s.twice)
	return services
}

// cancelSaga cancels the saga, once the calls that have begun are sent.
func (l *living) cancelSaga(ctx context.Context, watch *monitor) {
	time.Sleep(time.Millisecond)
	r, err := l.engine.Cancel(ctx, watch.id, journal.Audit{Actor: "sagatest", Reason: "a scenario"})
	if err == nil { // else it was over, past its pivot, or not there yet
		watch.recordCancel(r)
	}
}

// A living is a process with its engine.
type living struct {
	*process
	watch  *monitor
	engine *saga.Engine
	run    runFunc
}

// networkOf returns how a process reaches the services.
func (e *explorer) networkOf(watch *monitor) roundTripper {
	if e.breakNetwork == nil {
		return watch
	}
	return e.breakNetwork(watch)
}

func (e *explorer) process(ctx context.Context, watch *monitor, network roundTripper, end <-chan struct{}) (*living, error) {
	p := &process{Journal: watch, network: network, end: end, lease: e.lease, dead: make(chan struct{})}
	p.begins = watch.checkBegin
	names := make(map[string]bool)
	var services []string
	for _, s := range e.steps {
		if (isCall(s) || s.Each && !s.IsFunction()) && !names[s.Service] {
			names[s.Service] = true
			services = append(services, s.Service)
		}
	}
	for _, service := range e.services {
		if !names[service] {
			names[service] = true
			services = append(services, service)
		}
	}
	if len(services) == 0 {
		services = []string{"none"} // a client needs one
	}
	client, err := newClient(p, services)
	if err != nil {
		return nil, err
	}
	definition, run := e.build(client)
	engine, err := saga.Open(ctx, p, saga.Config{
		Client:      client,
		Definitions: []saga.AnyDefinition{definition}, Lease: e.lease, Poll: e.lease / 5,
		Backoff: retry.Backoff{Cap: time.Hour}, Rand: func() float64 { return 0.5 },
	})
	return &living{p, watch, engine, run}, err
}

// close ends the process; a dead one cannot wait for anything.
func (l *living) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.engine.Close(ctx)
}

// run has the saga run in the first process, and then in the second, as a
// caller does that tries again elsewhere. It returns what the second said.
func (e *explorer) run(ctx context.Context, first, second *living) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = first.run(ctx, first.engine, exploreKey)
	}()
	select {
	case <-ended:
	case <-first.dead:
	}
	return e.runAgain(ctx, second)
}

// runAgain has the saga run in a process, and waits for it.
func (e *explorer) runAgain(ctx context.Context, in *living) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return in.run(ctx, in.engine, exploreKey)
}

// check returns what is wrong with how a saga ended.
func (e *explorer) check(s scenario, r journal.Record, err error, services *Services) []string {
	var wrong []string
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	pivot, functions := false, make(map[string]bool)
	for _, step := range e.steps {
		effects := services.Effects(step.Name)
		functions[step.Name] = step.IsFunction() // one of its calls may have been refused, and another not
		pivot = pivot || step.Pivot && effects.Done > 0
		if effects.Done > 1 && !step.IsFunction() { // a function may make several calls
			note("%s took effect %d times", step.Name, effects.Done)
		}
		e.checkStep(note, step, effects, r)
	}
	e.checkSkips(note, r)
	for _, d := range services.Deliveries() {
		if d.Undo && pivot {
			note("%s was undone past the pivot", d.Step)
		}
		if d.Undo && services.Effects(d.Step).Refused && !functions[d.Step] {
			note("%s was undone, and it had been refused", d.Step)
		}
	}
	switch {
	case !r.Status.Final() && r.Status != journal.Stuck:
		note("the saga is %v after %v", r.Status, patience)
	case r.Status == journal.Stuck && !s.mayStick:
		note("the saga is stuck on %+v", r.StuckOn)
	case s.completes && r.Status != journal.Completed && (s.disturbance == none || e.fits()) && s.disturbance != cancel && s.disturbance != cancelHere:
		note("the saga is %v, though a Retriable step only had to be tried for longer, or an Optional one was refused", r.Status)
	case (err == nil || errors.Is(err, saga.ErrNoResult)) != (r.Status == journal.Completed):
		note("the saga is %v, and Run returned %v", r.Status, err)
	}
	return wrong
}

// checkStep notes effects of a step that do not fit how the saga ended.
func (e *explorer) checkStep(note func(string, ...any), step saga.StepInfo, effects Effects, r journal.Record) {
	status := r.Status
	switch {
	case isSkipped(r, step.Name) && effects.Done > effects.Undone:
		note("%s was skipped, and took effect", step.Name)
	case status == journal.Completed && isSkipped(r, step.Name):
	case step.IsFunction() && status == journal.Completed && effects.Undone > 0:
		note("the saga completed; %s was undone %d times", step.Name, effects.Undone)
	case status == journal.Completed && isCall(step) && (effects.Done != 1 || effects.Undone != 0):
		note("the saga completed; %s took effect %d times and was undone %d times", step.Name, effects.Done, effects.Undone)
	case status == journal.Compensated && !step.ReadOnly && !step.Irreversible && effects.Done != effects.Undone:
		note("the saga is compensated; %s took effect %d times and was undone %d times", step.Name, effects.Done, effects.Undone)
	case effects.Undone > effects.Done:
		note("%s was undone more often than it took effect", step.Name)
	}
}
