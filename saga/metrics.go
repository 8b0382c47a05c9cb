package saga

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

// Metrics counts what an engine does, by the sagas' names: the name is the only
// label. It is an [Observer] and an expvar.Var:
//
//	metrics := saga.NewMetrics()
//	expvar.Publish("fanonce_saga", metrics)
//
// It knows what its own process did. How many sagas there are, by status, is in
// [Engine.Stats]. The zero Metrics is ready to use. It is safe for concurrent
// use, also by several engines, and must not be copied.
type Metrics struct {
	sagas sync.Map // string → *sagaMetrics

	tookOver, leasesLost, writesRefused, journalErrors, noResults, panics, hung, deferred, leftToNewer, swept, sweepErrors atomic.Int64
}

type sagaMetrics struct {
	started, failed, completed, compensated, stuck, resumed, abandoned atomic.Int64
	attempts, unknownAttempts                                          atomic.Int64
}

// NewMetrics returns Metrics with every count at zero.
func NewMetrics() *Metrics { return &Metrics{} }

// Observe implements [Observer].
func (m *Metrics) Observe(_ context.Context, e Event) {
	switch e.Kind {
	case EventAttempt:
		s := m.countsOf(e.Name)
		s.attempts.Add(1)
		if e.Outcome == retry.Unknown {
			s.unknownAttempts.Add(1)
		}
	case EventMoved:
		m.countsOf(e.Name).countMove(e)
	case EventTookOver:
		m.tookOver.Add(int64(e.Count))
	case EventLeaseLost:
		m.leasesLost.Add(1)
	case EventDeferred:
		m.deferred.Store(int64(e.Count))
	case EventLeftToNewer:
		m.leftToNewer.Add(1)
	case EventWriteRefused:
		m.writesRefused.Add(1)
	case EventJournalError:
		m.journalErrors.Add(1)
	case EventNoResult:
		m.noResults.Add(1)
	case EventSwept:
		m.swept.Add(int64(e.Count))
	case EventSweepError:
		m.sweepErrors.Add(1)
	case EventPanic:
		m.panics.Add(1)
	case EventHung:
		m.hung.Add(1)
	}
}

// countMove counts a change of a saga's status.
func (s *sagaMetrics) countMove(e Event) {
	switch {
	case e.From == e.To: // somebody wants it cancelled
	case e.From == 0:
		s.started.Add(1)
	case e.To == journal.Completed:
		s.completed.Add(1)
	case e.To == journal.Compensated:
		s.compensated.Add(1)
	case e.To == journal.Stuck:
		s.stuck.Add(1)
	case e.To == journal.Abandoned:
		s.abandoned.Add(1)
	case e.From == journal.Stuck:
		s.resumed.Add(1)
	case e.To == journal.Compensating:
		s.failed.Add(1)
	}
}

func (m *Metrics) countsOf(name string) *sagaMetrics {
	v, ok := m.sagas.Load(name)
	if !ok {
		v, _ = m.sagas.LoadOrStore(name, &sagaMetrics{})
	}
	return v.(*sagaMetrics) //nolint:errcheck,forcetypeassert // nothing else is stored
}

// A Snapshot is the counts at one moment.
type Snapshot struct {
	Sagas map[string]Counts `json:"sagas"` // by name

	TookOver      int64 `json:"took_over"`      // sagas of engines that are gone
	LeasesLost    int64 `json:"leases_lost"`    // by the engine itself
	WritesRefused int64 `json:"writes_refused"` // of sagas that had another owner by then
	JournalErrors int64 `json:"journal_errors"`
	NoResults     int64 `json:"no_results"` // completed sagas without a result
	Panics        int64 `json:"panics"`     // in functions of plans, of observers, and of the engine
	Hung          int64 `json:"hung"`       // attempts whose function did not return by its deadline
	// LeftToNewer counts how often the engine deferred a saga that has a part unknown to it.
	LeftToNewer int64 `json:"left_to_newer"`
	Swept       int64 `json:"swept"` // sagas that [Engine.RunSweeper] deleted
	SweepErrors int64 `json:"sweep_errors"`
	// Deferred is a gauge and not a counter. It is the number of sagas, at the last look, that wait
	// for a definition or a part that this engine does not have.
	Deferred int64 `json:"deferred"`
}

// Counts are those of the sagas of one name.
type Counts struct {
	Started     int64 `json:"started"` // includes enqueued sagas, when they are first claimed
	Failed      int64 `json:"failed"`  // from running to compensating
	Completed   int64 `json:"completed"`
	Compensated int64 `json:"compensated"`
	Stuck       int64 `json:"stuck"`
	Resumed     int64 `json:"resumed"` // stuck ones, by a verb
	Abandoned   int64 `json:"abandoned"`

	Attempts        int64 `json:"attempts"`         // of steps and undos
	UnknownAttempts int64 `json:"unknown_attempts"` // after which the effect is not known
}

// Snapshot returns the counts so far. They are not taken at one instant: what
// happens meanwhile may be in one count and not in another.
func (m *Metrics) Snapshot() Snapshot {
	s := Snapshot{
		Sagas:    make(map[string]Counts),
		TookOver: m.tookOver.Load(), LeasesLost: m.leasesLost.Load(), WritesRefused: m.writesRefused.Load(),
		JournalErrors: m.journalErrors.Load(), NoResults: m.noResults.Load(), Panics: m.panics.Load(), Hung: m.hung.Load(), Deferred: m.deferred.Load(),
		LeftToNewer: m.leftToNewer.Load(),
		Swept:       m.swept.Load(), SweepErrors: m.sweepErrors.Load(),
	}
	m.sagas.Range(func(name, v any) bool {
		s.Sagas[name.(string)] = v.(*sagaMetrics).snapshot() //nolint:errcheck,forcetypeassert // nothing else is stored
		return true
	})
	return s
}

func (s *sagaMetrics) snapshot() Counts {
	return Counts{
		Started: s.started.Load(), Failed: s.failed.Load(), Completed: s.completed.Load(), Compensated: s.compensated.Load(),
		Stuck: s.stuck.Load(), Resumed: s.resumed.Load(), Abandoned: s.abandoned.Load(),
		Attempts: s.attempts.Load(), UnknownAttempts: s.unknownAttempts.Load(),
	}
}

// String returns the snapshot as JSON: Metrics is an expvar.Var.
func (m *Metrics) String() string {
	b, err := json.Marshal(m.Snapshot())
	if err != nil { // numbers and strings always encode
		return "{}"
	}
	return string(b)
}
