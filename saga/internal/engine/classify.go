package engine

import (
	"errors"
	"net/http"
	"runtime/debug"
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

// Guarded calls fn and returns its panic as an [*sdk.PanicError]. It does not return if fn
// ends the goroutine.
func Guarded(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &sdk.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return fn()
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
