package sagatest

import (
	"net/http"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga"
)

// A trouble is an event that can happen to a call.
type trouble struct {
	name   string
	faults []Fault
	// sticks: the saga may get stuck if this happens to the pivot, to a step after it, or to an
	// undo.
	sticks bool
}

func repeat(n int, f Fault) []Fault { return slices.Repeat([]Fault{f}, n) }

// troubles are what can happen to the call of a step.
var troubles = []trouble{
	{"is refused", []Fault{Reject(http.StatusConflict)}, true},
	{"is refused late", []Fault{Delay(5*time.Second, Reject(http.StatusConflict))}, true},
	{"loses its request", []Fault{LoseRequest()}, false},
	{"loses its answer", []Fault{LoseAnswer()}, false},
	{"loses its answer often", repeat(6, LoseAnswer()), false},
	{"finds no connection", repeat(6, NotSent()), false},
	{"finds the service down for a while", repeat(10, Unavailable()), false},
	{"is turned away by a gateway after it ran", []Fault{LoseAnswer(), Gateway(http.StatusUnauthorized), Gateway(http.StatusForbidden)}, false},
	{"finds its answer gone", []Fault{LoseAnswer(), Always(Gone())}, true},
	{"is forgotten after it ran", []Fault{Always(Forget(true))}, true},
	{"is forgotten before it ran", []Fault{Always(Forget(false))}, true},
	{"takes long", []Fault{Slow(3 * time.Second)}, false},
}

// before are the troubles of a step that matter if another step fails.
var before = []trouble{troubles[3], troubles[4], troubles[6], troubles[8], troubles[11]}

// lasting is the only trouble that outlasts the attempts of a step that can fail.
var lasting = trouble{"finds the service down for long", repeat(150, Unavailable()), false}

// undoTroubles are what can happen to an undo.
var undoTroubles = []trouble{
	{"loses its request", []Fault{LoseRequest()}, false},
	{"loses its answer", []Fault{LoseAnswer()}, false},
	{"finds the service down for a while", repeat(10, Unavailable()), false},
	{"takes long", []Fault{Slow(3 * time.Second)}, false},
	{"is turned away by a gateway after it ran", []Fault{LoseAnswer(), Gateway(http.StatusUnauthorized), Gateway(http.StatusForbidden)}, false},
	{"is refused", []Fault{Reject(http.StatusUnprocessableEntity)}, true},
}

// away is how long a service is out of reach that makes a saga stuck, and late how long it takes until a person retries
// the saga: the services have forgotten then what they did before.
const away, late = 30 * time.Hour, retention + 24*time.Hour

// lateRetries returns the scenarios in which what must succeed, the call of a step or its undo, has no connection until
// the saga is stuck. A person retries it when the services have forgotten its earlier calls. A call that was never
// sent succeeds then. One that may have been sent must not be sent again.
func (e *explorer) lateRetries(s saga.StepInfo) []scenario {
	never := []Fault{during(away, NotSent())}
	once := []Fault{LoseAnswer(), during(away, NotSent())}
	var all []scenario
	if e.lease < longestLease {
		return nil // a day of short leases takes long to play
	}
	if s.Retriable {
		all = append(all,
			scenario{name: s.Name + " finds no connection for a day", faults: map[string][]Fault{s.Name: never}},
			scenario{name: s.Name + " loses its answer, and then finds no connection for a day", faults: map[string][]Fault{s.Name: once}, mayStick: true})
	}
	if failing, ok := e.failingAfter(s); ok && s.Undo != "" {
		refused, undo := map[string][]Fault{failing.Name: troubles[0].faults}, failing.Name+" is refused, and the undo of "+s.Name
		all = append(all,
			scenario{name: undo + " finds no connection for a day", faults: refused, undoFaults: map[string][]Fault{s.Name: never}},
			scenario{
				name: undo + " loses its answer, and then finds no connection for a day", faults: refused,
				undoFaults: map[string][]Fault{s.Name: once}, mayStick: true,
			})
	}
	for i := range all {
		all[i].retried = late
	}
	return all
}

// scenarios returns all scenarios that are played.
func (e *explorer) scenarios() []scenario {
	all := []scenario{{name: "all goes well"}}
	add := func(s scenario) { all = append(all, s) }
	for _, s := range e.steps {
		if s.IsAwait() {
			all = append(all, e.ofAwait(s)...)
			continue
		}
		if !isCall(s) {
			all = append(all, e.ofFunction(s)...)
			continue
		}
		for _, t := range troubles {
			sticks := t.sticks && s.Undo == "" && !s.ReadOnly && !s.Irreversible
			add(scenario{
				name: s.Name + " " + t.name, faults: map[string][]Fault{s.Name: t.faults}, mayStick: sticks,
				completes: s.Optional && t.name == troubles[0].name && s.Timeout == 0 && e.timeout == 0,
			})
		}
		if s.Retriable {
			add(scenario{name: s.Name + " " + lasting.name, faults: map[string][]Fault{s.Name: lasting.faults}, completes: s.Timeout == 0 && e.timeout == 0})
		}
		all = append(all, e.lateRetries(s)...)
		failing, ok := e.failingAfter(s)
		if !ok {
			continue
		}
		refusal := troubles[0].faults
		for _, t := range before {
			add(scenario{
				name:   s.Name + " " + t.name + ", and " + failing.Name + " is refused",
				faults: map[string][]Fault{s.Name: t.faults, failing.Name: refusal},
			})
		}
		for _, t := range undoTroubles {
			if s.Undo != "" {
				add(scenario{
					name:       failing.Name + " is refused, and the undo of " + s.Name + " " + t.name,
					faults:     map[string][]Fault{failing.Name: refusal},
					undoFaults: map[string][]Fault{s.Name: t.faults}, mayStick: t.sticks,
				})
			}
		}
	}
	return slices.Concat(all, e.besides())
}

// functionTroubles are what can happen to the calls of a function, by the order of the
// deliveries.
var functionTroubles = []trouble{
	{"has its first call refused", []Fault{Reject(http.StatusConflict)}, false},
	{"has its second call refused", []Fault{{}, Reject(http.StatusConflict)}, false},
	{"loses the answer of its first call", []Fault{LoseAnswer()}, false},
	{"loses the answer of its second call", []Fault{{}, LoseAnswer()}, false},
	{"finds no connection for its second call", append([]Fault{{}}, repeat(6, NotSent())...), false},
	{"loses its first answer often, and its last call is refused", append(repeat(6, LoseAnswer()), Fault{}, Reject(http.StatusConflict)), false},
}

// ofFunction returns the scenarios of a step whose function makes calls.
func (e *explorer) ofFunction(s saga.StepInfo) []scenario {
	if len(e.services) == 0 || !s.IsFunction() {
		return nil
	}
	var all []scenario
	for _, t := range functionTroubles {
		all = append(all, scenario{name: s.Name + " " + t.name, faults: map[string][]Fault{s.Name: t.faults}, mayStick: s.Undo == "" && s.Pivot})
	}
	return all
}

// besides returns scenarios of a step whose call is running, or whose answer is lost, when a step
// beside it is refused.
func (e *explorer) besides() []scenario {
	var all []scenario
	for _, s := range e.steps {
		for _, other := range e.steps {
			if s.Name == other.Name || !isCall(s) || !isCall(other) || other.Retriable || e.isAfter(s, other) || e.isAfter(other, s) {
				continue
			}
			for _, late := range []trouble{
				{"takes long", []Fault{Slow(3 * time.Second)}, false},
				{"loses its answer late", []Fault{Delay(3*time.Second, LoseAnswer())}, false},
			} {
				all = append(all, scenario{
					name:   s.Name + " " + late.name + ", and " + other.Name + " is refused beside it",
					faults: map[string][]Fault{s.Name: late.faults, other.Name: troubles[0].faults},
				})
			}
		}
	}
	return all
}

// isAfter reports whether s runs after other, directly or not.
func (e *explorer) isAfter(s, other saga.StepInfo) bool {
	for _, step := range e.steps {
		if slices.Contains(s.After, step.Name) && (step.Name == other.Name || e.isAfter(step, other)) {
			return true
		}
	}
	return false
}

// failingAfter returns a step whose refusal makes the saga undo s: the pivot, or the last step
// that can fail.
func (e *explorer) failingAfter(s saga.StepInfo) (saga.StepInfo, bool) {
	var found saga.StepInfo
	for _, other := range e.steps {
		if other.Name != s.Name && isCall(other) && !other.Retriable && !found.Pivot {
			found = other
		}
	}
	return found, found.Name != "" && !s.Pivot && !s.Retriable
}
