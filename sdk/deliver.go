package sdk

import (
	"context"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/retry"
)

// deliver sends the call. Its error is a *retry.Error.
func (o *outgoing) deliver(ctx context.Context) (*retry.Response, error) {
	call := o.call
	b := branchFrom(ctx)
	if err := b.own(call.Key); err != nil {
		return nil, refuse(call.Service, call.Operation, call.Key, err)
	}
	now := o.service.now()
	before, again := b.earlier(call.Key)
	if !again {
		before.first = now
	}
	ctx, cancel, err := o.withinRetention(ctx, now, before.first)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if err := o.prepare(ctx, &call); err != nil {
		return nil, refuse(call.Service, call.Operation, call.Key, err)
	}
	call.Resumed = call.Resumed || again && before.outcome == retry.Unknown
	resp, err := o.service.sender.Send(ctx, call)
	b.note(call.Key, before.first, err)
	return resp, err
}

// withinRetention bounds ctx so that no attempt begins after the callee may
// have forgotten the first one, and refuses the call if that is now.
func (o *outgoing) withinRetention(ctx context.Context, now, first time.Time) (context.Context, context.CancelFunc, error) {
	retention := o.service.profile.Retention
	if retention == 0 {
		return ctx, func() {}, nil
	}
	if !o.call.FirstSent.IsZero() {
		first = o.call.FirstSent
	}
	left := first.Add(retention - retention/20).Sub(now)
	if left <= 0 {
		return nil, nil, &retry.Error{
			Outcome: retry.Unknown, Evidence: "too old to be sent again; an earlier run may have taken effect",
			Service: o.call.Service, Operation: o.call.Operation, Key: o.call.Key, Err: retry.ErrKeyExpired,
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, left, retry.ErrKeyExpired)
	return ctx, cancel, nil
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
