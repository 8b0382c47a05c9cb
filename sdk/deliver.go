package sdk

import (
	"context"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// deliver sends the call. Its error is a *retry.Error.
func (o *outgoing) deliver(ctx context.Context) (*retry.Response, error) {
	call := o.call
	note := o.noteIn(ctx)
	d, err := o.begin(ctx, &call)
	if err != nil {
		refused := o.service.client.Refuse(ctx, retry.Task{
			Service: call.Service, Operation: call.Operation, Key: call.Key, Resumed: call.Resumed,
		}, err)
		note.end(nil, refused.Outcome, err)
		return nil, refused
	}
	defer d.close()
	resp, err := o.service.client.Send(ctx, call)
	if err == nil && o.ran && resp.Header.Get(wire.HeaderForward) == wire.ForwardNeverRan {
		resp, err = nil, &retry.Error{
			Outcome: retry.Unknown, Service: call.Service, Operation: call.Operation, Key: call.Key, Err: retry.ErrKeyExpired,
			Evidence: "the callee answered the call, and now says that it never ran",
		}
	}
	d.noteEnd(err)
	note.end(resp, d.outcome, err)
	return resp, err
}

// A delivery is one run of a call, from when its family knows of it until close.
type delivery struct {
	child   child
	call    *retry.Call
	outcome retry.Outcome // Unknown while it runs
}

// begin readies the call to be sent, and notes it. Close the delivery unless there is an
// error. The error refuses the call, which is Resumed if the error speaks of earlier runs too.
func (o *outgoing) begin(ctx context.Context, call *retry.Call) (d delivery, err error) {
	resumed := call.Resumed
	call.Resumed = false // a refusal is said of this run alone
	if !call.Key.IsZero() {
		if err := branchFrom(ctx).takeCall(call.Key); err != nil {
			return d, err
		}
	}
	now := time.Now()
	before := o.child.begin(now)
	d = delivery{child: o.child, call: call, outcome: retry.NotSent}
	defer func() {
		if d.outcome == retry.NotSent { // refused, or HeaderFunc panicked
			d.close()
		}
	}()
	if !isSafe(call.Method) { // else there is nothing that an earlier one can have done
		resumed = resumed || before.effects()
		if err := o.withinRetention(call, now, o.firstSent(before, now)); err != nil {
			return d, err
		}
	}
	if err := addHeaders(ctx, call.Header, o.service.headerFunc, o.service.profile); err != nil {
		return d, err
	}
	call.Resumed, d.outcome = resumed, retry.Unknown
	return d, nil
}

// noteEnd notes how the run ended.
func (d *delivery) noteEnd(err error) {
	if err == nil {
		d.outcome = retry.Completed
		return
	}
	d.outcome, _ = outcomeOf(err)
}

// close takes the run out of its family, which keeps its outcome.
func (d *delivery) close() { d.child.end(d.outcome, d.call.Resumed) }

// firstSent returns since when the callee may remember the call: from when the first was
// sent that may have had an effect, as whoever knows the most says.
func (o *outgoing) firstSent(before history, now time.Time) time.Time {
	first := now
	if before.effects() {
		first = before.first
	}
	if at := o.call.FirstSent; !at.IsZero() && at.Before(first) && !o.firstRun {
		first = at
	}
	return first
}

// isSafe reports whether the method asks for no effect (RFC 9110 section 9.2.1).
func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// withinRetention lets no attempt begin when the callee may have forgotten the first one.
// It refuses the call if that time has come: an earlier run may have taken effect.
func (o *outgoing) withinRetention(call *retry.Call, now, first time.Time) error {
	call.Expires = o.service.profile.Expires(first)
	if call.Expires.IsZero() || now.Before(call.Expires) {
		return nil
	}
	call.Resumed = true
	return retry.ErrKeyExpired
}

// A history holds what is known of the calls of one tuple under one ctx, whether they were
// made one after the other or beside each other. The zero history knows of none.
type history struct {
	first     time.Time // when the first of them began that may have had an effect
	maybe     bool      // one of them may have had an effect
	completed bool      // one of them had
	underWay  int
}

// effects reports whether a call of the tuple took effect, or may have.
func (h history) effects() bool { return h.maybe || h.completed || h.underWay > 0 }

// begin notes a call that begins at the time now, and returns what was known before.
func (c child) begin(now time.Time) (before history) {
	if c.family == nil {
		return history{} // a read
	}
	c.family.Note(c.key, func(noted any) any {
		h, _ := noted.(history)
		before = h
		if !h.effects() {
			h.first = now
		}
		h.underWay++
		return h
	})
	return before
}

// end notes how a call ended. resumed says that the call began as Unknown because of
// earlier calls. Then its outcome speaks for those too.
func (c child) end(outcome retry.Outcome, resumed bool) {
	if c.family == nil {
		return
	}
	c.family.Note(c.key, func(noted any) any {
		h, _ := noted.(history)
		h.underWay--
		switch outcome {
		case retry.Completed:
			h.completed = true
		case retry.Unknown:
			h.maybe = true
		case retry.Rejected:
			h.maybe = h.maybe && !resumed
		default: // a call that was not sent changes nothing
		}
		return h
	})
}
