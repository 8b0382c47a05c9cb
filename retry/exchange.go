package retry

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// An exchange is one call over HTTP while it is made: the run, and what
// go-retryablehttp's hooks share with the transport below it. It serves one call after
// another, so nothing that outlives a call may lead to it: what transports get is the
// hop's, and answers are.
type exchange struct {
	run
	frozen   frozen
	looped   *http.Request         // what loop repeats; it stays with the exchange
	given    retryablehttp.Request // to loop: looped, or what loop made of it
	follow   bool                  // redirects
	standard bool                  // net/http's response is wanted, whatever its status

	repeats  int     // deliveries that net/http added to the attempt by itself
	reserved int     // of them, those for which retries were taken beforehand
	hop      *hop    // the attempt's last
	answer   *answer // of the attempt; nil: none that is complete
	failed   error   // why there is none

	last *answer // of the call
	err  *Error
}

var exchangePool = sync.Pool{New: func() any {
	x := new(exchange)
	x.looped = newLooped(x)
	return x
}}

// release has the exchange serve another call.
func (x *exchange) release() {
	x.looped.URL = nil
	*x = exchange{looped: x.looped}
	exchangePool.Put(x)
}

// exchange makes the call; follow says whether it follows redirects itself. Release it.
func (c *Client) exchange(ctx context.Context, call *Call, follow bool) *exchange {
	x := exchangePool.Get().(*exchange) //nolint:errcheck // there is nothing else in it
	x.follow, x.standard = follow, call.owned
	c.made().carrier.expire(call)
	x.task = Task{Service: call.Service, Operation: call.Operation, Key: call.Key, Resumed: call.Resumed, Expires: call.Expires}
	x.safe = !call.Key.IsZero() || idempotent(call.Method)
	x.resume(ctx, safe(call.Method))
	x.note(ctx, call)
	x.open(ctx, c)
	x.make(call)
	x.noteEnd(x.err)
	x.observeCall(x.last, x.err)
	return x
}

// make freezes the call and sends it, unless it cannot or may no longer be sent.
func (x *exchange) make(call *Call) {
	if x.client == unmade {
		x.fail(nil, errUnmade)
		return
	}
	u, err := x.frozen.freeze(call, &x.client.carrier, &x.client.targets)
	if err != nil {
		x.fail(nil, err)
		return
	}
	if stop := x.ended(x.start); stop != nil {
		x.retryable = true
		x.fail(nil, stop)
		return
	}
	x.loop(call, u)
}

// check says whether another attempt follows the one that just ended, when it
// has waited for it. What go-retryablehttp knows of the attempt was recorded by
// the transport, with more detail. The context's end is no reason by itself: a
// complete answer wins.
func (x *exchange) check(err error) bool {
	if x.answer == nil && x.failed == nil {
		x.failed = err // net/http refused the request before the transport saw it
	}
	v := x.verdict()
	cause := x.lastError()
	wait, again, stop := x.end(v, 1+x.repeats, x.reserved, cause)
	x.observeAttempt(v, 1+x.repeats, wait, x.answer, cause)
	switch {
	case again && x.sleep(wait):
		return true
	case again:
		x.takeBack()
		x.fail(cause, x.ended(time.Now()))
	case v.Outcome == Completed && x.answer != nil && x.answer.usable():
		x.budgetSuccess()
	default:
		x.fail(cause, stop)
	}
	return false
}

// lastError returns the attempt's end as an error; nil after a usable answer.
func (x *exchange) lastError() error {
	if x.answer != nil {
		return x.answer.err()
	}
	return x.failed
}

// fail sets the call's error, with the last complete answer in it.
func (x *exchange) fail(err, stop error) {
	e := x.run.fail(err, stop)
	if a := x.last; a != nil {
		e.Status, e.Code, e.Detail, e.Header = a.status, a.shown(), a.detail, a.header
		e.Body = a.snippet()
		if len(a.body) > len(e.Body) { // an error may be kept for long
			e.Body = bytes.Clone(e.Body)
		}
	}
	x.err = e
}

func (x *exchange) response() *Response {
	a := x.last
	return &Response{Status: a.status, Header: a.header, Body: a.body, Replayed: a.replayed, Attempts: x.attempts}
}
