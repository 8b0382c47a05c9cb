package sdktest

import (
	"net/http"
	"slices"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A Fault is what happens to one delivery of a request. The zero Fault is
// [Pass].
type Fault struct {
	before func(done <-chan struct{})
	answer *answer // in place of the work
	drop   bool    // no answer at all
	run    bool    // the work is done although no or half an answer comes
	cut    int     // this many bytes of the body arrive; 0: all
	repeat bool
}

// Pass delivers the request and its answer.
func Pass() Fault { return Fault{} }

// Status answers with that status and body instead of the work: a gateway or
// a service that sheds load. The body is JSON if it begins with "{".
func Status(status int, body string) Fault {
	header := http.Header{}
	if len(body) > 0 && body[0] == '{' {
		header.Set("Content-Type", "application/json")
	}
	return Fault{answer: &answer{status: status, header: header, body: []byte(body)}}
}

// Answer is [Status] with headers, for headers of a callee such as Retry-After. It copies
// header; nil means none.
func Answer(status int, header http.Header, body string) Fault {
	f := Status(status, body)
	for name, values := range header {
		f.answer.header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	return f
}

// Problem answers with the problem of that code instead of the work, as the
// callee's idempotency layer does.
func Problem(code wire.Code) Fault {
	problem := wire.NewProblem(code, "")
	header := http.Header{}
	header.Set("Content-Type", wire.ProblemContentType)
	header.Set(wire.HeaderCode, string(code))
	header.Set(wire.HeaderShouldRetry, "false")
	if problem.Retryable {
		header.Set(wire.HeaderShouldRetry, "true")
		header.Set(wire.HeaderRetryAfter, "0")
	}
	return Fault{answer: &answer{status: problem.Status, header: header, body: problem.JSON()}}
}

// Delay passes the request on after d.
func Delay(d time.Duration) Fault {
	return Fault{before: func(done <-chan struct{}) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-done:
		}
	}}
}

// Hold passes the request on once release is closed, or the Downstream is.
func Hold(release <-chan struct{}) Fault {
	return Fault{before: func(done <-chan struct{}) {
		select {
		case <-release:
		case <-done:
		}
	}}
}

// DropRequest closes the connection before the work: the request is lost.
func DropRequest() Fault { return Fault{drop: true} }

// DropResponse does the work and closes the connection: the answer is lost.
func DropResponse() Fault { return Fault{drop: true, run: true} }

// Truncate does the work and closes the connection after the first n bytes of
// the answer's body, at least 1.
func Truncate(n int) Fault { return Fault{run: true, cut: max(n, 1)} }

// Duplicate delivers the request twice, one after the other, and answers with the second
// answer.
func Duplicate() Fault { return Fault{repeat: true} }
