package retry

import (
	"net/http"

	"github.com/fanonce/fanonce/childkey/wire"
)

// verdict returns what the attempt that just ended means.
func (x *exchange) verdict() Verdict {
	if x.answer == nil {
		return verdictOf(x.failed, &x.hop.seen)
	}
	if x.answer.usable() {
		return StatusVerdict(x.answer.status) // nothing in its headers could make it another
	}
	v := x.judge(x.answer)
	v.RetryAfter = max(v.RetryAfter, x.retryAfter(x.answer))
	v.Vetoed = v.Vetoed || x.answer.vetoes()
	return v
}

// vetoes reports whether the callee says that no retry can help. With other credentials,
// which whoever begins anew may have, one can.
func (a *answer) vetoes() bool {
	retry, ok := wire.ParseFlag(a.header.Values(wire.HeaderShouldRetry))
	return ok && !retry && a.status != http.StatusUnauthorized
}

// invites reports whether the callee says that a retry can help.
func (a *answer) invites() bool {
	retry, ok := wire.ParseFlag(a.header.Values(wire.HeaderShouldRetry))
	return ok && retry
}

// judge finds the answer's row: by its code, else by the callee's own rules,
// else by its status.
func (x *exchange) judge(a *answer) Verdict {
	if a.tooLong() {
		return Verdict{Outcome: Completed, Evidence: "2xx, longer than the client reads"}
	}
	if v, ok := CodeVerdict(a.code); ok {
		if a.code == wire.KeyReused && x.task.Resumed {
			// The other payload may be this very call, as an earlier process
			// spelled it: then it has taken effect.
			v.Proven = false
		}
		switch {
		case a.code == wire.OutcomeUnknown && a.invites():
			v.Action, v.Evidence = Wait, "the callee is finding out"
		case a.code == wire.TransactionFailed && a.invites():
			v.Action, v.Evidence = Retry, "the callee failed to record its work, and runs it again"
		}
		return v
	}
	answer := Answer{Status: a.status, Header: a.header, Body: a.snippet(), Keyed: !x.task.Key.IsZero(), Honoured: a.honoured, Replayed: a.replayed, conflict: x.frozen.carrier.profile.Conflict}
	if judge := x.frozen.carrier.profile.Judge; judge != nil && !a.success() {
		if v, ok := judge(answer); ok {
			return v
		}
	}
	return answer.Verdict()
}

// Verdict is what the client makes of the answer where no [Profile.Judge] does: the row of
// its status, and what the callee says of the key. A 409 to a call with a key is what
// [Profile.Conflict] says, unless the callee says that it honoured the key.
func (a Answer) Verdict() Verdict {
	v := StatusVerdict(a.Status)
	if a.Keyed && a.Status == http.StatusConflict {
		v = conflicts[a.conflict]
	}
	return keyed(v, a.Status, a.Replayed, a.Honoured)
}

// keyed returns the verdict v of a status, given what the callee says of the
// key: whether it honoured it, and whether the answer is a replay.
func keyed(v Verdict, status int, replayed, honoured bool) Verdict {
	switch {
	case !honoured:
	case status/100 == 3:
		// The handler ran and its answer was stored, redirect or not.
		return Verdict{Outcome: Completed, Proven: true, Evidence: "redirected after it ran"}
	case status/100 == 4 && (replayed || !released[status]):
		return Verdict{Outcome: Rejected, Proven: true, Evidence: "the callee's stored answer"}
	case status/100 == 5 && replayed:
		v.Action = Stop // the same answer again, for ever
		v.Evidence = "a stored " + http.StatusText(status)
	}
	return v
}
