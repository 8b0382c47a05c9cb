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

// permanent are the causes that running the same code again cannot cure.
var permanent = []error{
	childkey.ErrDuplicateChild, childkey.ErrEmpty, childkey.ErrTooLong, childkey.ErrTooMany,
	childkey.ErrBadKey, childkey.ErrBadName, childkey.ErrBadScope, childkey.ErrBadEncoding, childkey.ErrBadSecret,
	contract.ErrInvalid, contract.ErrBody, wire.ErrBadHeader,
	retry.ErrConfig, retry.ErrInvalid, retry.ErrKeyReused, retry.ErrKeyExpired, retry.ErrKeyCancelled,
	ErrConfig, ErrNoParent, ErrHasParent, ErrNoService, ErrRequest,
	ErrNoCalls, ErrBranch, ErrPlan, ErrWaited, ErrCycle,
}

// passing are the causes outside of a call that say themselves that they pass.
var passing = []error{context.Canceled, context.DeadlineExceeded, ErrIntentStore, ErrPrepare}

// Resumable reports whether running the same code again, with the same parent key, can end
// otherwise. It is true for
//
//   - a call that was NotSent: no connection, no time, no budget left, or a failed
//     [Service.Prepare];
//   - a call whose outcome is Unknown: its callee may know by then;
//   - a call that was Rejected for now: [retry.Error.Retryable], and 401, since the next run
//     has other credentials;
//   - the end of a ctx, and [ErrIntentStore];
//   - a [*FanoutError] of which one branch is, a branch that waited for another one that is,
//     and a function of a branch that hides a call that is Unknown;
//   - errors.Join of errors of which one is;
//   - an error that says so by a method Resumable() bool, as a [saga.Error] does.
//
// It is false for
//
//   - nil, and what was done and whose answer is gone;
//   - what the callee refused for good;
//   - a key that the callee knows with another payload, has forgotten or has cancelled
//     ([retry.ErrKeyReused], [retry.ErrKeyExpired], [retry.ErrKeyCancelled]), whatever the
//     outcome: it will answer so again;
//   - mistakes in the calling code: bad keys, names, operations and requests,
//     [ErrHasParent], [ErrNoParent], a bad plan, a panic;
//   - every other error. Code that knows better of its own errors asks them first.
//
// A run that is not worth repeating may still have left something behind: what it left is
// the outcome's to say.
//
// Nothing makes an answer of that by itself: a guarded handler has to. It answers an
// error that is resumable with a status that is not stored, such as 503, so that its
// caller's retry runs it again, and any other with one that is stored, such as 422: a
// typed handler by server.StatusError, for what it returns as it is becomes a 500, which
// is not stored. If something that it called took effect and stays, no status of 400 or
// above must be stored: server.Keyed says why.
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
	case unvetoed:
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
	var function overruled
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
		// 401 is not final here: the next run asks Service.Prepare again.
		return e.Retryable || e.Status == http.StatusUnauthorized
	default:
		return false
	}
}
