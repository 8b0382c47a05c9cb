package sdk

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// A Result says what became of one branch of a fan-out.
type Result struct {
	// Name is the branch's: "service.operation[discriminators]", or what
	// AddFunc was given.
	Name string
	// Outcome is what is known of the branch's effect.
	Outcome retry.Outcome
	// Err is nil, or has a *retry.Error with that Outcome.
	Err error
	// Value is what the branch returned, an Out; nil if Err is not nil.
	Value any
}

// Results returns the results of the branches that have one, by name. If two branches have
// one name, which is a mistake, the first counts.
func (f *Fanout) Results() map[string]Result {
	f = f.made()
	f.mu.Lock()
	defer f.mu.Unlock()
	results := make(map[string]Result, len(f.branches))
	for name, b := range f.names {
		select {
		case <-b.done:
			results[name] = b.result
		default:
		}
	}
	return results
}

// outcomeOf returns the outcome that err states.
func outcomeOf(err error) (retry.Outcome, string) {
	var failed *retry.Error
	if errors.As(err, &failed) {
		return failed.Outcome, failed.Evidence
	}
	if errors.Is(err, ErrPanic) {
		return retry.Unknown, "the branch panicked"
	}
	return retry.Unknown, "an error that says no outcome"
}

// withOutcome returns err, if a *retry.Error with that outcome is in it, or one
// around it.
func withOutcome(b *branch, outcome retry.Outcome, evidence string, err error) error {
	var failed *retry.Error
	if errors.As(err, &failed) && failed.Outcome == outcome {
		return err
	}
	e := &retry.Error{
		Outcome: outcome, Evidence: evidence, Operation: b.name,
		Err: overruledError{err: err, again: Resumable(err) || b.made.Unknown() > 0},
	}
	if failed != nil { // what was answered stays true
		e.Status, e.Code, e.Detail, e.Body = failed.Status, failed.Code, failed.Detail, failed.Body
	}
	return e
}

// An overruledError is an error whose own outcome does not hold: it is shown, and
// matches whatever it matched but the outcome.
type overruledError struct {
	err   error
	again bool // another run can end otherwise
}

func (e overruledError) Error() string { return e.err.Error() }

// Is hides the outcome sentinels; Unwrap would show them.
func (e overruledError) Is(target error) bool {
	switch target {
	case retry.ErrNotSent, retry.ErrRejected, retry.ErrUnknown, retry.ErrCompleted:
		return false
	}
	return errors.Is(e.err, target)
}

// As hides the *retry.Error that says the outcome.
func (e overruledError) As(target any) bool {
	if _, ok := target.(**retry.Error); ok {
		return false
	}
	return errors.As(e.err, target)
}

// Rejected returns err as the error of a branch's function ([AddFunc]). By it the function states that neither this
// run nor an earlier one had an effect, or will have one, whatever they called. The branch is Rejected, in a rerun
// too. The function of a saga's step can return it as well, like saga.Rejected. The result wraps err and a
// [*retry.Error]. That has the status, the detail and the body of a callee's answer in err, but no code of package
// wire, because such a code speaks for one call. Nil stays nil.
func Rejected(err error) error {
	if err == nil {
		return nil
	}
	if isNil(err) {
		err = errNil
	}
	e := &retry.Error{Outcome: retry.Rejected, Evidence: "the function says so", Err: err}
	var answer *retry.Error
	if errors.As(err, &answer) && answer != nil {
		e.Status, e.Detail, e.Body, e.RetryAfter = answer.Status, answer.Detail, answer.Body, answer.RetryAfter
		if _, ours := answer.Code.Situation(); !ours {
			e.Code = answer.Code
		}
	}
	return rejectedError{e}
}

// A rejectedError is the outcome that a function states itself. Package saga knows it by its method.
type rejectedError struct{ failed *retry.Error }

func (r rejectedError) Error() string { return r.failed.Error() }
func (r rejectedError) Unwrap() error { return r.failed }

func (r rejectedError) Stated() (outcome retry.Outcome, permanent bool) {
	return r.failed.Outcome, false
}

// statedBy returns the outcome that a function states itself, if err consists only of this: by [Rejected], or by
// the functions of package saga.
func statedBy(err error) (o retry.Outcome, ok bool) {
	for ; err != nil; err = errors.Unwrap(err) { // it does not look into joined errors
		if said, ok := err.(interface{ Stated() (retry.Outcome, bool) }); ok { //nolint:errorlint // it is the loop of errors.As
			o, _ = said.Stated()
			return o, true
		}
	}
	return retry.Unknown, false
}

// A functionError reads what the error of a branch's function says of its effect. The error of one
// call must not speak for another: the function may have made two, and return what the
// second one got.
type functionError struct {
	calls *retry.Calls // that the branch made

	unclear  bool // a part does not state an outcome, or may have had an effect
	rejected bool
}

// classifyFunction returns what err and the calls that the function made say together. It is
// Unknown, unless the function states another outcome, or err consists of errors of calls, no call took effect or
// may have, and no earlier run can have made others.
func classifyFunction(err error, calls *retry.Calls, rerun bool) (retry.Outcome, string) {
	if o, ok := statedBy(err); ok {
		return o, "the function says so"
	}
	t := functionError{calls: calls}
	t.add(err)
	made := calls.Outcome()
	switch {
	case errors.Is(err, ErrPanic):
		return retry.Unknown, "the branch panicked"
	case made == retry.Unknown, made == retry.Completed:
		return retry.Unknown, "a call of the branch took effect, or may have"
	case rerun:
		return retry.Unknown, "an earlier run of the branch may have had an effect"
	case t.unclear:
		return retry.Unknown, "an error that does not say what it left behind"
	case t.rejected, made == retry.Rejected:
		return retry.Rejected, "all that it called was refused or not sent"
	default:
		return retry.NotSent, "nothing that it called was sent"
	}
}

// add takes in err and the errors that it wraps, down to those that state an outcome.
func (f *functionError) add(err error) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree
	case *FanoutError:
		for _, r := range e.Results {
			if r.Err != nil {
				f.take(r.Outcome)
			}
		}
	case *DependencyError: // what was not begun for it leaves nothing
	case *retry.Error:
		f.addCall(e)
	case retryableError:
		f.add(e.err)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			f.add(part)
		}
		f.unclear = f.unclear || len(e.Unwrap()) == 0
	case interface{ Unwrap() error }:
		f.add(e.Unwrap())
	default: // nil too: an error that wraps nothing
		f.unclear = true
	}
}

// addCall takes in the error of a call. An error without an attempt is a refusal of this
// package, or the function's own word. One with attempts that the branch did not make is
// about another call.
func (f *functionError) addCall(e *retry.Error) {
	if e.Attempts > 0 && !f.calls.Made(e) {
		f.unclear = true
		return
	}
	f.take(e.Outcome)
}

func (f *functionError) take(o retry.Outcome) {
	f.unclear = f.unclear || o == retry.Unknown || o == retry.Completed
	f.rejected = f.rejected || o == retry.Rejected
}

// permanent are the causes that running the same code again cannot cure.
var permanent = []error{
	childkey.ErrDuplicateChild, childkey.ErrEmpty, childkey.ErrTooLong, childkey.ErrTooMany,
	childkey.ErrBadKey, childkey.ErrBadName, childkey.ErrBadScope, childkey.ErrBadEncoding, childkey.ErrBadSecret,
	contract.ErrInvalid, contract.ErrBody, contract.ErrType, wire.ErrBadHeader,
	retry.ErrConfig, retry.ErrInvalid, retry.ErrKeyReused, retry.ErrKeyExpired, retry.ErrKeyCancelled,
	ErrConfig, ErrNoParent, ErrHasParent, ErrNoService, ErrRequest, ErrNoUndo,
	ErrNoCalls, ErrBranch, ErrPlan, ErrWaited, ErrCycle,
}

// passing are the causes outside of a call that say themselves that they pass.
var passing = []error{context.Canceled, context.DeadlineExceeded, ErrIntentStore, ErrHeaderFunc}

// Resumable reports whether running the same code again, with the same parent key, can end
// otherwise. It is true for
//
//   - a call that was NotSent: no connection, no time, no budget left, or a failed
//     [Service.HeaderFunc];
//   - a call whose outcome is Unknown: its callee may know by then. That holds even if the
//     callee asks for no retry, as after the failure of an Opaque handler: a person decides;
//   - a call that was Rejected for now: [retry.Error.Retryable], and 401, since the next run
//     has other credentials;
//   - the end of a ctx, and [ErrIntentStore];
//   - a [*FanoutError] with a branch that failed by such an error, or whose function hides
//     the error of a call that is Unknown;
//   - a [DependencyError] whose Err is such an error;
//   - errors.Join with such an error;
//   - an error whose method Resumable() bool says so, as that of a [saga.Error] does.
//
// It is false for
//
//   - nil, and a call that took effect, whose answer is gone;
//   - a call that the callee refused for good;
//   - a key that the callee knows with another payload, has forgotten or has cancelled
//     ([retry.ErrKeyReused], [retry.ErrKeyExpired], [retry.ErrKeyCancelled]), whatever the
//     outcome: it will answer so again;
//   - mistakes in the calling code: bad keys, names, operations and requests,
//     [ErrHasParent], [ErrNoParent], a bad plan, a panic;
//   - every other error: code that returns errors of its own looks at them first.
//
// False does not mean that nothing is left behind. The outcome of each call says that.
//
// A guarded handler must turn that into an answer. It answers a resumable error with a
// status that is not stored, such as 503, so that its caller's retry runs it again. It
// answers any other error with a status that is stored, such as 422. A typed handler
// returns a server.StatusError for that; any other error becomes a 500, which is not
// stored. If one of its calls took effect and stays, it must not store a status of 400 or
// above: server.Keyed explains why.
//
// [saga.Error]: https://pkg.go.dev/github.com/fanonce/fanonce/saga#Error
func Resumable(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it walks the tree
	case nil:
		return false
	case *FanoutError:
		return slices.ContainsFunc(e.Results, func(r Result) bool { return Resumable(r.Err) })
	case *DependencyError:
		return Resumable(e.Err)
	case *retry.Error:
		return e != nil && resumableCall(e)
	case retryableError:
		return Resumable(e.err)
	case interface{ Resumable() bool }:
		return e.Resumable()
	case interface{ Unwrap() []error }:
		parts := e.Unwrap()
		mistake := slices.ContainsFunc(parts, func(part error) bool { return slices.Contains(permanent, part) })
		return !mistake && slices.ContainsFunc(parts, Resumable)
	}
	if slices.Contains(passing, err) {
		return true
	}
	return Resumable(errors.Unwrap(err))
}

// resumableCall is [Resumable] for the error of a call, or of a branch.
func resumableCall(e *retry.Error) bool {
	var function overruledError
	var dependency *DependencyError
	switch {
	case errors.As(e.Err, &function):
		return function.again
	case errors.As(e.Err, &dependency):
		return Resumable(dependency)
	case slices.ContainsFunc(permanent, func(cause error) bool { return errors.Is(e, cause) }):
		return false
	}
	switch e.Outcome {
	case retry.NotSent, retry.Unknown:
		return true
	case retry.Rejected:
		// 401 is not final here: the next run asks Service.HeaderFunc again.
		return e.Retryable || e.Status == http.StatusUnauthorized
	default:
		return false
	}
}
