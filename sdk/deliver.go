package sdk

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/retry"
)

// deliver sends the call. Its error is a *retry.Error.
func (o *outgoing) deliver(ctx context.Context) (*retry.Response, error) {
	call := o.call
	b := branchFrom(ctx)
	if err := b.own(call.Key); err != nil {
		return nil, o.refuse(ctx, err)
	}
	now := o.service.now()
	before := o.child.begin(now)
	outcome := retry.NotSent
	defer func() { o.child.end(outcome, call.Resumed) }()
	first := o.firstSent(b, before, now)
	if !safe(call.Method) { // else there is nothing that an earlier one can have done
		call.Resumed = call.Resumed || before.effects() || b.effected(call.Key)
		if err := o.withinRetention(&call, now, first); err != nil {
			return nil, o.service.sender.Refuse(ctx, task(&call), err)
		}
	}
	if err := o.prepare(ctx, &call); err != nil {
		return nil, o.refuse(ctx, err)
	}
	outcome = retry.Unknown // should Send panic
	resp, err := o.service.sender.Send(ctx, call)
	outcome = outcomeOfCall(err)
	b.note(call.Key, first, err)
	return resp, err
}

// firstSent returns since when the callee may remember the call: from when the first was
// sent that may have had an effect, as whoever knows the most says.
func (o *outgoing) firstSent(b *branch, before history, now time.Time) time.Time {
	first := now
	if before.effects() {
		first = before.first
	}
	if s, ok := b.earlier(o.call.Key); ok && s.effects() && s.first.Before(first) {
		first = s.first
	}
	if at := o.call.FirstSent; !at.IsZero() && at.Before(first) && !o.firstRun {
		first = at
	}
	return first
}

// safe reports whether the method asks for no effect (RFC 9110 section 9.2.1).
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

func (o *outgoing) refuse(ctx context.Context, err error) *retry.Error {
	refused := o.call
	refused.Resumed = false // it is said of this run alone
	return o.service.sender.Refuse(ctx, task(&refused), err)
}

func task(call *retry.Call) retry.Task {
	return retry.Task{Service: call.Service, Operation: call.Operation, Key: call.Key, Resumed: call.Resumed}
}

func outcomeOfCall(err error) retry.Outcome {
	if err == nil {
		return retry.Completed
	}
	outcome, _ := outcomeOf(err)
	return outcome
}

// withinRetention lets no attempt of the call begin when the callee may have forgotten
// the first one, and refuses the call if that is now: an earlier run may have taken
// effect.
func (o *outgoing) withinRetention(call *retry.Call, now, first time.Time) error {
	expires := o.service.profile.Expires(first)
	if expires.IsZero() {
		return nil
	}
	left := expires.Sub(now)
	if left <= 0 {
		call.Resumed = true
		return retry.ErrKeyExpired
	}
	call.Expires = time.Now().Add(left)
	return nil
}

// prepare adds the headers of the service's hook; call is the caller's copy.
func (o *outgoing) prepare(ctx context.Context, call *retry.Call) error {
	if o.service.prepare == nil {
		return nil
	}
	call.Header = call.Header.Clone()
	if err := o.service.prepare(ctx, call.Header); err != nil {
		return fmt.Errorf("%w: %w", ErrPrepare, err)
	}
	return checkHeader(call.Header, o.service.profile)
}
