package sdk

import (
	"time"

	"github.com/fanonce/fanonce/retry"
)

// A history is what is known of the calls of one tuple under one ctx, however they
// were made: one after the other, or beside each other. The zero history knows of none.
type history struct {
	first     time.Time // when the first of them began that may have had an effect
	maybe     bool      // one of them may have had an effect
	completed bool      // one of them had
	underWay  int
}

// effects reports whether a call of the tuple took effect, or may have.
func (h history) effects() bool { return h.maybe || h.completed || h.underWay > 0 }

// begin notes a call that begins at the time now, and returns what was known before.
func (c child) begin(now time.Time) (before history) {
	c.family.Note(c.hash, func(noted any) any {
		h, _ := noted.(history)
		before = h
		if !h.effects() {
			h.first = now
		}
		h.underWay++
		return h
	})
	return before
}

// end notes how a call ended. resumed says that it began with what had been before, and
// so speaks for it: a refusal that it took for proof is one.
func (c child) end(outcome retry.Outcome, resumed bool) {
	c.family.Note(c.hash, func(noted any) any {
		h, _ := noted.(history)
		h.underWay--
		switch outcome {
		case retry.Completed:
			h.completed = true
		case retry.Unknown:
			h.maybe = true
		case retry.Rejected:
			h.maybe = h.maybe && !resumed
		default: // of what was not sent there is nothing to learn
		}
		return h
	})
}
