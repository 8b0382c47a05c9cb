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
		return nil, o.refuse(ctx, err)
	}
	now := o.service.now()
	before, again := b.earlier(call.Key)
	if !again {
		before, again = o.child.earlier()
	}
	if !again {
		before.first = now
	}
	call.Resumed = call.Resumed || again && before.effects()
	if err := o.withinRetention(&call, now, before.first); err != nil {
		return nil, o.service.sender.Refuse(ctx, task(&call), err)
	}
	if err := o.prepare(ctx, &call); err != nil {
		return nil, o.refuse(ctx, err)
	}
	o.child.note(sent{first: before.first}) // nobody knows before it is over
	resp, err := o.service.sender.Send(ctx, call)
	o.child.note(sent{before.first, outcomeOfCall(err)})
	b.note(call.Key, before.first, err)
	return resp, err
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
	remembered := remembered(o.service.profile.Retention)
	if remembered == 0 {
		return nil
	}
	if !call.FirstSent.IsZero() {
		first = call.FirstSent
	}
	left := first.Add(remembered).Sub(now)
	if left <= 0 {
		call.Resumed = true
		return retry.ErrKeyExpired
	}
	call.Expires = time.Now().Add(left)
	return nil
}

// remembered is how much of a callee's retention can be counted on, for clocks differ.
func remembered(retention time.Duration) time.Duration { return retention - retention/20 }

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
