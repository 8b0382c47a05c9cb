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
	instead     *answer // the answer instead of the service's answer
	refusal     int     // the status of a permanent refusal by the service
	why         []byte  // the body of the refusal; nil: a body without details
	refused     bool    // no connection
	lostRequest bool
	lostAnswer  bool
	gone        bool // a repeat finds the answer gone
	forgets     bool // the service loses track of the call
	noEffect    bool // although the call ran
	twice       bool
	always      bool          // for all further deliveries too
	lasts       time.Duration // with always: only for so long after the script's first delivery
}

// Pass delivers the request and its answer.
func Pass() Fault { return Fault{} }

// Reject refuses the call with that status, permanently: the call had no effect, and repeats get
// the same answer.
func Reject(status int) Fault { return Fault{refusal: status} }

// RejectWith is Reject with that body, which is JSON.
func RejectWith(status int, body string) Fault { return Fault{refusal: status, why: []byte(body)} }

// NotSent refuses the connection.
func NotSent() Fault { return Fault{refused: true} }

// LoseRequest loses the request on its way.
func LoseRequest() Fault { return Fault{lostRequest: true} }

// LoseAnswer lets the call run, and loses the answer.
func LoseAnswer() Fault { return Fault{lostAnswer: true} }

// Gone answers a repeat of a call that has run with response-gone.
func Gone() Fault { return Fault{gone: true} }

// Forget makes the service lose track of the call: it answers outcome-unknown to every repeat.
// effect says whether the call had its effect.
func Forget(effect bool) Fault { return Fault{forgets: true, noEffect: !effect} }

// Gateway answers with that status instead of the service, as a gateway or an access check in
// front of it does. The call does not run.
func Gateway(status int) Fault { return Fault{instead: &answer{status: status, body: []byte(`{}`)}} }

// Unavailable is Gateway of 503.
func Unavailable() Fault { return Gateway(http.StatusServiceUnavailable) }

// Delay applies f after that time.
func Delay(d time.Duration, f Fault) Fault {
	f.delay = d
	return f
}

// Twice delivers the request twice.
func Twice() Fault { return Fault{twice: true} }

// Always applies f to all further deliveries too. It is the last Fault of a script.
func Always(f Fault) Fault {
	f.always = true
	return f
}

// during is Always of f for that long, from the first delivery of its script on.
func during(d time.Duration, f Fault) Fault {
	f.always, f.lasts = true, d
	return f
}

// Slow makes the service take that long. Meanwhile it answers in-progress to repeats and to an
// undo.
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
