package engine

import (
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

// A leg is one direction of a step: its call, or its undo. Three of its fields are states, which
// only the methods in this file change. They move so, and in no other way:
//
//	state:     idle -> running (begin), running -> idle (drop), running -> idle, givenUp or ended (end),
//	           idle or givenUp -> ended (cease)
//	knowledge: only onward, from none to opened (open), known (learn) and attempted (end)
//	entry:     written -> unwritten (end, learn), unwritten -> due (owe), any -> written (write)
//
// When a leg is read from the journal, no attempt of it runs, and there is nothing to write.
type leg struct {
	state     callState
	knowledge knowledge
	entry     entryState
	// maybe says that an attempt by this owner, or by an earlier one, may have had its effect.
	// Only proof of the opposite resets it.
	maybe    bool
	unheard  bool // maybe, by an owner whose calls this one has no notes of
	outcome  retry.Outcome
	result   []byte
	attempts int
	retryAt  time.Time
	at       time.Time // when it ended, if it has
	// firstSent is the First-Sent of the first attempt that may have been sent; zero: none is known. No owner sent
	// the call before unsent; zero: nothing is known of that.
	firstSent, unsent time.Time
	sends, due        time.Time     // of the running attempt: its First-Sent, and when it is given up
	lingers, hung     bool          // an attempt that is not this execution's still runs in this process; it is given up
	last              journal.Entry // for people: the last observation
	calls             *retry.Calls  // that its function made; nil: none yet
}

// A callState says whether the call of a leg can be begun, runs or is over.
type callState uint8

const (
	callIdle    callState = iota // it may be begun
	callRunning                  // an attempt is running
	callGivenUp                  // not to be sent again, with an unknown outcome
	callEnded                    // its outcome is final
)

// A knowledge says how much the owner knows of the attempts of a leg. Each value includes those
// before it.
type knowledge uint8

const (
	knowledgeNone      knowledge = iota
	knowledgeOpened              // the journal says that the call begins or has begun
	knowledgeKnown               // an entry or an attempt exists
	knowledgeAttempted           // by this owner, or by an owner whose answers are all known
)

// An entryState compares a leg with its entry in the journal.
type entryState uint8

const (
	entryWritten   entryState = iota // there is nothing to write
	entryUnwritten                   // the journal does not have this leg yet, and can wait for it
	entryDue                         // the next write is to have this leg
)

// isEnded reports whether the leg has its final outcome.
func (l *leg) isEnded() bool { return l.state == callEnded }

// isRunning reports whether an attempt of the leg is running.
func (l *leg) isRunning() bool { return l.state == callRunning }

// isOver reports whether the leg is not sent again.
func (l *leg) isOver() bool { return l.state == callEnded || l.state == callGivenUp }

// isOpened reports whether the journal says that the call begins or has begun.
func (l *leg) isOpened() bool { return l.knowledge >= knowledgeOpened }

// isKnown reports whether an entry or an attempt exists.
func (l *leg) isKnown() bool { return l.knowledge >= knowledgeKnown }

// isAttempted reports whether this owner, or an owner whose answers are all known, made an attempt.
func (l *leg) isAttempted() bool { return l.knowledge == knowledgeAttempted }

// isCompleted reports whether the leg ended well.
func (l *leg) isCompleted() bool { return l.isEnded() && l.outcome == retry.Completed }

// isHarmless reports whether the leg ended without an effect.
func (l *leg) isHarmless() bool {
	return l.isEnded() && (l.outcome == retry.Rejected || l.outcome == retry.NotSent)
}

func (l *leg) begin(sends, due time.Time) { l.state, l.sends, l.due = callRunning, sends, due }

// drop takes begin back. An attempt of an earlier execution may have had its effect.
func (l *leg) drop() { l.state, l.maybe, l.unheard = callIdle, true, true }

// end records that the attempt has ended, and what is to be done about the call now.
func (l *leg) end(now callState) {
	l.state, l.knowledge = now, knowledgeAttempted
	l.entry = max(l.entry, entryUnwritten)
	l.attempts++
}

// cease ends a leg while no attempt of it runs.
func (l *leg) cease() { l.state = callEnded }

// conclude ends a leg that makes no call. Its entry is due.
func (l *leg) conclude(outcome retry.Outcome, now time.Time) {
	l.outcome, l.at, l.retryAt = outcome, now, time.Time{}
	l.cease()
	l.learn()
	l.owe()
}

// open records that the journal says that the call begins.
func (l *leg) open() { l.knowledge = max(l.knowledge, knowledgeOpened) }

// learn records that an attempt may exist which the journal does not have.
func (l *leg) learn() {
	l.knowledge = max(l.knowledge, knowledgeKnown)
	l.entry = max(l.entry, entryUnwritten)
}

// owe puts the leg into the next write, if the journal does not have it.
func (l *leg) owe() {
	if l.entry == entryUnwritten {
		l.entry = entryDue
	}
}

// write records that a write has the leg.
func (l *leg) write() { l.entry = entryWritten }

// failure returns the failure of a saga that this leg is the reason for.
func (l *leg) failure(t task, reason journal.Reason) *journal.Failure {
	f := &journal.Failure{
		Reason: reason, Step: t.step.Name, Undo: t.undo, Outcome: l.outcome,
		Status: l.last.Status, Code: l.last.Code, Detail: l.last.Detail, Problem: l.last.Problem,
		Body: l.last.Body, BodyTooLong: l.last.BodyTooLong,
	}
	if !l.isKnown() {
		f.Outcome = retry.NotSent
	}
	return f
}
