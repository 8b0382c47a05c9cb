package saga

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// A verdict is what the end of one try means.
type verdict struct {
	outcome retry.Outcome
	result  []byte // of a call that completed; nil: none
	nothing bool   // of an undo that completed: there was nothing to undo
	again   bool   // of NotSent and Rejected: another try can end better
	deadEnd bool   // of Unknown: the callee answers, and does not know itself
	lost    bool   // of Unknown: too old to be sent again
	stop    bool   // of Unknown: the function says that another try cannot help
	after   time.Duration

	// For people.
	status int
	code   wire.Code
	detail string
	// problem is the detail of the callee's own problem.
	problem string
}

// judge returns what a try that returned result or err means, where that is not the
// error of a function.
func judge(result []byte, err error) verdict {
	if err == nil {
		return verdict{outcome: retry.Completed, result: result}
	}
	v := verdict{detail: detail(err)}
	var failed *retry.Error
	var without *noResult
	switch {
	case errors.As(err, &without):
		v.outcome = retry.Completed
	case errors.As(err, &failed):
		v.outcome, v.status, v.code, v.after = failed.Outcome, failed.Status, failed.Code, failed.RetryAfter
		v.problem = cut(strings.ToValidUTF8(failed.Detail, "\uFFFD"), MaxDetailBytes)
		v.again = sdk.Resumable(err) && !errors.Is(err, ErrPanic)
		v.lost = failed.Outcome == retry.Unknown && errors.Is(err, retry.ErrKeyExpired)
		v.deadEnd = deadEnd(failed)
		if v.lost {
			v.code = wire.KeyExpired // the next owner must know
		}
	}
	return v // what any other error leaves behind nobody knows: Unknown
}

// answered reports whether a status is the service's own word: not of a guard
// at the door, who might let the next try pass.
func answered(status int) bool {
	switch status {
	case 0, http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return false
	}
	return true
}

// detail returns what err says, short enough to be stored. Errors of this
// library hold no key and no body; those of a plan's functions are their
// author's.
func detail(err error) string {
	text := err.Error()
	var failed *retry.Error
	if errors.As(err, &failed) && failed.Err != nil { // the rest has fields of its own
		text = strings.ReplaceAll(failed.Err.Error(), "retry: ", "")
		if failed.Evidence != "" {
			text = failed.Evidence + ": " + text
		}
	}
	return cut(strings.ToValidUTF8(text, "\uFFFD"), MaxDetailBytes) // which may be longer than text
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

// A PanicError is a panic of one of a plan's functions, or its end by
// runtime.Goexit. Its step may have had its effect.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // of the goroutine that panicked; nil after Goexit
}

// Error shows the value; the stack is in the field.
func (e *PanicError) Error() string { return fmt.Sprintf("saga: panic: %v", e.Value) }

// Is matches [ErrPanic].
func (e *PanicError) Is(target error) bool { return target == ErrPanic }

// guarded calls fn and returns its panic as an error.
func guarded(fn func() error) (err error) {
	err = &PanicError{Value: "runtime.Goexit"} // unless it returns, or panics
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return fn()
}
