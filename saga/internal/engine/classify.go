package engine

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// A finding is the meaning of the end of one attempt.
type finding struct {
	outcome retry.Outcome
	result  []byte // of a completed call; nil: none
	nothing bool   // of a completed undo: it found nothing to undo
	again   bool   // of NotSent and Rejected: another attempt can end better
	deadEnd bool   // of Unknown: the callee answers, but does not know the outcome itself
	lost    bool   // of Unknown: too old to be sent again
	stop    bool   // of Unknown: the function says that another attempt cannot help
	waits   bool   // of Unknown: the function still waited for another saga, which goes on
	after   time.Duration

	detail string // for people
	answer
}

// classify returns what an attempt that returned result or err means, where that is not the
// error of a function.
func classify(result []byte, err error) finding {
	if err == nil {
		return finding{outcome: retry.Completed, result: result}
	}
	v := finding{detail: detail(err)}
	var failed *retry.Error
	var without *NoResult
	switch {
	case errors.As(err, &without):
		v.outcome = retry.Completed
	case errors.As(err, &failed):
		v.outcome, v.after, v.answer = failed.Outcome, failed.RetryAfter, answerOf(failed)
		v.again = sdk.Resumable(err) && !errors.Is(err, sdk.ErrPanic)
		v.lost = failed.Outcome == retry.Unknown && errors.Is(err, retry.ErrKeyExpired)
		v.deadEnd = isDeadEnd(failed)
		if v.lost {
			v.code = wire.KeyExpired // the next owner must know
		}
	}
	return v // what any other error leaves behind nobody knows: Unknown
}

// isFromService reports whether a status is the service's own word: not of a guard
// at the door, who might let the next attempt pass.
func isFromService(status int) bool {
	switch status {
	case 0, http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return false
	}
	return true
}

// detail returns the text of err, short enough to be stored. Errors of this library hold no key
// and no body; those of a plan's functions are their author's.
func detail(err error) string {
	text := err.Error()
	var failed *retry.Error
	if errors.As(err, &failed) && failed.Err != nil { // the rest has fields of its own
		text = strings.ReplaceAll(failed.Err.Error(), "retry: ", "")
		if failed.Evidence != "" {
			text = failed.Evidence + ": " + text
		}
	}
	return shortText(text)
}

// shortText returns text as a journal keeps it: UTF-8 of at most MaxDetailBytes.
func shortText(text string) string {
	return cut(strings.ToValidUTF8(text, "\uFFFD"), journal.MaxDetailBytes) // which may be longer than text
}

// cut returns at most limit bytes of text, and no part of a rune.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// A NoResult is a call that completed and whose output cannot be had.
type NoResult struct{ Err error }

func (n *NoResult) Error() string { return n.Err.Error() }
func (n *NoResult) Unwrap() error { return n.Err }

// An answer is what is kept of the answer that an attempt was refused with. The zero answer says
// that there was none.
type answer struct {
	status  int
	code    wire.Code
	problem string // what it says for people
	body    []byte
	tooLong bool // the body is, and is not there
}

// answerOf returns what is kept of the answer in failed. A function can return an error that
// it made itself: nothing in it is taken for storable.
func answerOf(failed *retry.Error) answer {
	a := answer{status: failed.Status, code: wire.Code(shortText(string(failed.Code))), problem: shortText(failed.Detail)}
	switch n := len(failed.Body); {
	case n > journal.MaxBodyBytes:
		a.tooLong = true
	case n > 0:
		a.body = slices.Clone(failed.Body)
	}
	return a
}

// into writes the answer into an entry, instead of the entry's earlier answer.
func (a *answer) into(e *journal.Entry) {
	e.Status, e.Code, e.Problem, e.Body, e.BodyTooLong = a.status, a.code, a.problem, a.body, a.tooLong
}

// classifyFunction classifies the error of a function that may have made calls. The outcome is
// Unknown, unless the function states another one, or the error covers each of the calls. After a run whose calls
// are not known (unheard) only a stated refusal counts: that run may have taken another path.
func classifyFunction(err error, calls *retry.Calls, childOf func(error) (Child, bool), unheard bool) finding {
	v := finding{detail: detail(err)}
	var failed *retry.Error
	if errors.As(err, &failed) {
		v.after, v.answer = failed.RetryAfter, answerOf(failed)
	}
	if said := saidBy(err); said != nil {
		outcome, permanent := said.Stated()
		v.outcome, v.again, v.deadEnd, v.stop = outcome, outcome == retry.NotSent, permanent, permanent
		return v
	}
	t := testimony{calls: calls, childOf: childOf}
	t.hear(err)
	v.outcome, v.again = t.outcome(), t.again
	if v.outcome == retry.Rejected && unheard {
		v.outcome = retry.Unknown
	}
	if v.outcome == retry.Unknown {
		v.waits = errors.Is(err, ErrDetached)
		v.lost = t.expired
		// It is a dead end if no further attempt can help and the error explains each unknown
		// call.
		v.deadEnd = !t.again && calls.Unknown() <= t.deadEnds
	}
	return v
}

// A stated error says the outcome that a function states itself, and whether another attempt cannot help. It is a
// [functionError], or that of package sdk.
type stated interface {
	Stated() (outcome retry.Outcome, permanent bool)
}

// saidBy returns what the function states itself, if err consists only of this.
func saidBy(err error) stated {
	for ; err != nil; err = errors.Unwrap(err) { // it does not look into joined errors
		if said, ok := err.(stated); ok { //nolint:errorlint // it is the loop of errors.As
			return said
		}
	}
	return nil
}

// A testimony collects the outcomes in the parts of a function's error, together with the calls.
type testimony struct {
	calls   *retry.Calls
	childOf func(error) (Child, bool)

	foreign  bool // a part is unrelated to the calls, or may have had an effect
	rejected bool
	again    bool // another attempt can end better
	expired  bool // a callee has forgotten the key
	deadEnds int  // parts by callees that do not know the outcome, and never will
}

// outcome returns the outcome of the function.
func (t *testimony) outcome() retry.Outcome {
	switch made := t.calls.Outcome(); {
	case t.foreign, made == retry.Unknown, made == retry.Completed:
		return retry.Unknown
	case t.rejected, made == retry.Rejected:
		return retry.Rejected
	default:
		return retry.NotSent
	}
}

// hear adds err with all wrapped errors, down to the errors that have an outcome.
func (t *testimony) hear(err error) {
	if c, ok := t.childOf(err); ok {
		t.hearChild(c)
		return
	}
	switch e := err.(type) { //nolint:errorlint // it walks the tree
	case stated:
		outcome, _ := e.Stated()
		t.take(outcome, outcome == retry.NotSent)
	case *sdk.FanoutError:
		for _, r := range e.Results {
			t.hearBranch(r)
		}
	case *retry.Error:
		t.hearCall(e)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			t.hear(part)
		}
		t.foreign = t.foreign || len(e.Unwrap()) == 0
	case interface{ Unwrap() error }:
		t.hear(e.Unwrap())
	default: // nil too: an error that wraps nothing
		t.foreign, t.again = true, true
	}
}

// take adds one part.
func (t *testimony) take(o retry.Outcome, again bool) {
	t.foreign = t.foreign || o == retry.Unknown || o == retry.Completed
	t.rejected = t.rejected || o == retry.Rejected
	t.again = t.again || again
}

// hearBranch adds the outcome of a branch of a fan-out. A branch that was not begun is not a
// call, and leaves no effect.
func (t *testimony) hearBranch(r sdk.Result) {
	var failed *retry.Error
	switch {
	case r.Err == nil: // the calls say what it did
	case errors.As(r.Err, &failed) && r.Outcome == retry.NotSent && failed.Attempts == 0:
		t.take(retry.NotSent, sdk.Resumable(r.Err))
	case r.Outcome == retry.Unknown:
		t.foreign = true
		t.hear(r.Err)
	default:
		t.hear(r.Err)
	}
}

// hearCall adds the error of a call. The function may have the error from elsewhere, or have made
// it itself. Then the error proves nothing about the known calls.
func (t *testimony) hearCall(e *retry.Error) {
	if !t.calls.Made(e) {
		t.take(retry.Unknown, true)
		return
	}
	again := sdk.Resumable(e)
	if isDeadEnd(e) {
		again = false
		t.deadEnds++
	}
	t.expired = t.expired || e.Outcome == retry.Unknown && errors.Is(e, retry.ErrKeyExpired)
	t.take(e.Outcome, again)
}

// hearChild adds the outcome of a saga that the function ran. A compensated saga left no effect,
// and stays so. People may resume a stuck saga.
func (t *testimony) hearChild(c Child) {
	ran := t.calls.Ended(c.ID)
	if c.Status == journal.Compensated && ran {
		t.take(retry.Rejected, false)
		return
	}
	t.take(retry.Unknown, c.Status == journal.Stuck || !ran)
}

// isDeadEnd reports whether the callee does not know the outcome of the call, and never will.
func isDeadEnd(e *retry.Error) bool {
	return e.Outcome == retry.Unknown && !e.Retryable && isFromService(e.Status)
}

// A Child is the end of a saga that the function of a step ran.
type Child struct {
	ID     journal.ID
	Status journal.Status
}

// A functionError is the outcome that a function states itself, whatever it called.
type functionError struct {
	failed    *retry.Error
	permanent bool
}

func (f *functionError) Error() string { return f.failed.Error() }
func (f *functionError) Unwrap() error { return f.failed }

func (f *functionError) Stated() (retry.Outcome, bool) { return f.failed.Outcome, f.permanent }

// Say returns err with the outcome that the function states. It keeps a callee's answer, except
// for a code of the idempotency layer. Such a code is about one call, and the function's outcome
// is about all its effects.
func Say(outcome retry.Outcome, permanent bool, err error) error {
	if err == nil {
		return nil
	}
	err = Spoken(err)
	failed := &retry.Error{
		Outcome: outcome, Evidence: "the function says so", Err: err, Retryable: outcome == retry.NotSent,
	}
	var answer *retry.Error
	if errors.As(err, &answer) && answer != nil {
		failed.Status, failed.Detail, failed.RetryAfter = answer.Status, answer.Detail, answer.RetryAfter
		failed.Body = answer.Body
		if _, ours := answer.Code.Situation(); !ours {
			failed.Code = answer.Code
		}
	}
	return &functionError{failed: failed, permanent: permanent}
}

// errNil replaces a nil *retry.Error that a function returns as its error, because the methods of
// a nil error panic.
var errNil = errors.New("saga: the function returned a nil *retry.Error as its error")

// Spoken returns the error of a function, with a nil *retry.Error replaced by errNil.
func Spoken(err error) error {
	if failed, ok := err.(*retry.Error); ok && failed == nil { //nolint:errorlint // only what was returned itself can be nil
		return errNil
	}
	return err
}
