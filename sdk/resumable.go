package sdk

import (
	"errors"
	"net/http"
	"slices"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
)

// permanent are the causes that running the same code again cannot cure.
var permanent = []error{
	childkey.ErrDuplicateChild, childkey.ErrEmpty, childkey.ErrTooLong, childkey.ErrTooMany, childkey.ErrBadName,
	contract.ErrInvalid, contract.ErrBody,
	retry.ErrConfig, retry.ErrInvalid, retry.ErrKeyExpired,
	ErrConfig, ErrNoParent, ErrNoService, ErrRequest,
	ErrNoCalls, ErrBranch, ErrPlan, ErrWaited, ErrCycle,
}

// Resumable reports whether running the same code again, with the same parent
// key, can make err go away: nothing was sent, nobody knows what happened, or
// the callee asks to come back later.
//
// Nothing makes an answer of that by itself: a guarded handler has to. It answers an
// error that is resumable with a status that is not stored, such as 503, so that its
// caller's retry runs it again, and any other with one that is stored, such as 422: a
// typed handler by server.StatusError, for what it returns as it is becomes a 500, which
// is not stored. If something that it called took effect and stays, no status of 400 or
// above must be stored: server.Keyed says why.
//
// It is false for nil, for what the callee refused for good, for what was done
// and whose answer is gone, and for mistakes in the calling code. A
// [*FanoutError] is resumable if one of its branches is; a branch that waited
// for another one is if that one is.
func Resumable(err error) bool {
	if err == nil {
		return false
	}
	var fan *FanoutError
	if errors.As(err, &fan) {
		return slices.ContainsFunc(fan.Unwrap(), Resumable)
	}
	var dependency *DependencyError
	if errors.As(err, &dependency) {
		return Resumable(dependency.Err)
	}
	if slices.ContainsFunc(permanent, func(cause error) bool { return errors.Is(err, cause) }) {
		return false
	}
	var failed *retry.Error
	if !errors.As(err, &failed) {
		return true
	}
	switch failed.Outcome {
	case retry.NotSent, retry.Unknown:
		return true
	case retry.Rejected:
		// 401 is not final here: the next run asks Service.Prepare again.
		return failed.Retryable || failed.Status == http.StatusUnauthorized
	default:
		return false
	}
}
