package server

// A Judgement is what somebody found who looked into a key whose outcome is
// unknown, or that is quarantined. The zero Judgement is [StillUnknown].
type Judgement struct {
	to       State // 0: still unknown
	maybeRan bool  // what an undo is told: some run may have had effects
	keeps    bool  // maybeRan stays what it was
	response Response
}

// StillUnknown says that nobody knows yet.
func StillUnknown() Judgement { return Judgement{} }

// Happened says that the effect happened, once, and what the caller should have
// been answered: retries get it as a replay.
func Happened(r Response) Judgement { return Judgement{to: StateCompleted, response: r} }

// NeverHappened says that no run had an effect and none will: the next call
// runs.
func NeverHappened() Judgement { return Judgement{to: StateReleased} }

// RunAgain says that another run does no harm, whatever happened before: the
// next call runs. An undo is told what it would have been told before.
func RunAgain() Judgement { return Judgement{to: StateReleased, keeps: true} }

// Abandoned says that the key must never run again, though its effect may have
// happened: it becomes a tombstone, and its retries get key-cancelled.
func Abandoned() Judgement { return Judgement{to: StateCancelled, maybeRan: true} }

// String returns the judgement in a few words, as the audit log has it.
func (j Judgement) String() string {
	switch {
	case j.to == StateCompleted:
		return "happened"
	case j.to == StateReleased && j.keeps:
		return "run again"
	case j.to == StateReleased:
		return "never happened"
	case j.to == StateCancelled:
		return "abandoned"
	default:
		return "still unknown"
	}
}
