package journal

import (
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// An EventKind is what an [Event] is about.
type EventKind string

// The kinds of events. The comment names the fields that the kind sets, besides ID and Name of
// the saga.
const (
	// EventAttempt: an attempt of a step or an undo has ended. Step to Wait, Elapsed, Err.
	EventAttempt EventKind = "attempt"
	// EventMoved: a saga's status has changed, and that is stored. Also: a saga was started
	// here, or claimed for the first time. From to Age. The engine that changed it reports it.
	EventMoved EventKind = "moved"
	// EventTookOver: the engine claimed Count sagas of engines that are gone, or that a verb
	// took from one or set going, and whose Entries may lack calls.
	EventTookOver EventKind = "took over"
	// EventLeaseLost: the engine's own lease ended. The engine goes on under another ID.
	EventLeaseLost EventKind = "lease lost"
	// EventDeferred: Count sagas wait for another build, the first because of Err. Count is 0
	// once that is over.
	EventDeferred EventKind = "deferred"
	// EventLeftToNewer: the engine deferred the saga. Err says which part it does not know.
	EventLeftToNewer EventKind = "left to newer"
	// EventWriteRefused: the saga has another owner by now.
	EventWriteRefused EventKind = "write refused"
	// EventJournalError: the journal returned Err, and the engine repeats the operation.
	EventJournalError EventKind = "journal error"
	// EventNoResult: a saga completed, and Err is why its result is not kept.
	EventNoResult EventKind = "no result"
	// EventSwept: the engine's sweeper deleted Count sagas. Elapsed is the journal's part.
	EventSwept EventKind = "swept"
	// EventSweepError: the engine's sweeper failed with Err, and tries again.
	EventSweepError EventKind = "sweep error"
	// EventPanic: a function of the plan or an observer panicked, or the engine did. Err is
	// often a PanicError of package sdk with the stack.
	EventPanic EventKind = "panic"
	// EventHung: the function of a step or an undo, which Name, Step and Undo say, has not returned by its deadline. The
	// engine gives the attempt up, with an unknown outcome. The function goes on, and its goroutine leaks if it never returns.
	EventHung EventKind = "hung"
)

// An Event is an event in the life of a saga or of an engine. Its Kind says which fields are set.
type Event struct {
	Kind   EventKind
	ID     ID       // of the saga; zero: not about one saga
	Name   string   // of the saga, with EventAttempt and EventMoved
	Engine EngineID // with the kinds that are about an engine

	Step    string
	Each    string        // of a step that is an item of a saga.Each: the Each's name; "": of any other
	Undo    bool          // the event is about the step's undo
	Attempt int           // counts from 1 for each call, with those of other processes
	Outcome retry.Outcome // of the call so far
	Status  int           // 0: no complete answer
	Code    wire.Code     // "": none
	Wait    time.Duration // before the next attempt; 0: no next attempt

	From, To Status // From is 0 for a saga that was started
	Failure  *Failure
	Age      time.Duration // since the saga's start

	Count   int
	Elapsed time.Duration
	Err     error // of an attempt: nil after a success
}

// A RunEvent is the beginning of an engine's work on a saga.
type RunEvent struct {
	ID    ID
	Name  string
	Fence int64  // more than 1: another engine had the saga, or a verb changed it
	Trace string // of the call that started the saga; "": none
}

// A CallInfo says which call of which saga a ctx is of.
type CallInfo struct {
	ID      ID
	Scope   string // that the saga was started in
	Name    string // of the saga
	Version int
	Step    string
	Undo    bool
}
