package sagatest

import (
	"context"
	"net/http"
	"time"
)

// A Fault is what happens to one delivery of a request. The zero Fault is
// [Pass].
type Fault struct {
	delay       time.Duration
	slow        time.Duration
	instead     *answer // in place of the service's
	refusal     int     // what the service refuses the call with, for good
	refused     bool    // no connection
	lostRequest bool
	lostAnswer  bool
	gone        bool // a repeat finds the answer gone
	forgets     bool // the service loses track of it
	noEffect    bool // though it ran
	twice       bool
	always      bool // for all further deliveries too
}

// Pass delivers the request and its answer.
func Pass() Fault { return Fault{} }

// Reject refuses the call with that status, for good: it had no effect, and
// repeats get the same answer.
func Reject(status int) Fault { return Fault{refusal: status} }

// NotSent refuses the connection.
func NotSent() Fault { return Fault{refused: true} }

// LoseRequest loses the request on its way.
func LoseRequest() Fault { return Fault{lostRequest: true} }

// LoseAnswer has the call run, and loses the answer.
func LoseAnswer() Fault { return Fault{lostAnswer: true} }

// Gone answers a repeat of a call that has run with response-gone.
func Gone() Fault { return Fault{gone: true} }

// Forget has the service lose track of the call: it answers outcome-unknown for
// good. effect says whether the call had its effect.
func Forget(effect bool) Fault { return Fault{forgets: true, noEffect: !effect} }

// Gateway answers with that status in place of the service: a gateway, or a
// guard at the door. The call does not run.
func Gateway(status int) Fault { return Fault{instead: &answer{status: status, body: []byte(`{}`)}} }

// Unavailable is Gateway of 503.
func Unavailable() Fault { return Gateway(http.StatusServiceUnavailable) }

// Delay has f happen after that time.
func Delay(d time.Duration, f Fault) Fault {
	f.delay = d
	return f
}

// Twice delivers the request twice.
func Twice() Fault { return Fault{twice: true} }

// Always has f happen to all further deliveries too; it is the last of a
// script.
func Always(f Fault) Fault {
	f.always = true
	return f
}

// Slow has the service take that long: meanwhile it answers in-progress to
// repeats, and to an undo.
func Slow(d time.Duration) Fault { return Fault{slow: d} }

// sleep waits, unless ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
