package retry

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// An exchange is one call over HTTP while it is made: the run, and what go-retryablehttp's
// hooks share with the transport below it.
type exchange struct {
	run
	frozen frozenCall
	follow bool // redirects
	whole  bool // the caller gets the answer, whatever its status

	repeats int           // deliveries that net/http added to the attempt
	sent    *http.Request // the last request of the attempt
	seen    *evidence     // of the last request of the attempt; nil: none was sent yet
	answer  *answer       // of the attempt; nil: not complete
	failed  error         // why the attempt has no answer

	last *answer // of the call
	err  *Error
}

// exchange makes the call; follow says whether it follows redirects itself.
func (c *Client) exchange(ctx context.Context, call *Call, follow bool) *exchange {
	e := &exchange{follow: follow, whole: call.owned}
	c.made().carrier.expire(call)
	e.task = call.task()
	e.safe = !call.Key.IsZero() || isIdempotent(call.Method)
	e.reads = isSafe(call.Method)
	e.resume(ctx, isSafe(call.Method))
	e.open(ctx, c, call)
	e.make(call)
	e.noteEnd(e.err)
	e.observeCall(e.last, e.err)
	return e
}

// make freezes the call and sends it, unless it cannot or may no longer be sent.
func (e *exchange) make(call *Call) {
	if e.client == unmade {
		e.fail(nil, errUnmade)
		return
	}
	u, err := e.frozen.freeze(call, &e.client.carrier)
	if err != nil {
		e.fail(nil, err)
		return
	}
	if stop := e.checkTime(e.start); stop != nil {
		e.retryable = true
		e.fail(nil, stop)
		return
	}
	if e.client.cfg.Observer != nil {
		req := &http.Request{Method: call.Method, URL: u, Host: call.host, Header: e.frozen.header}
		e.target = e.client.targetOf(req.WithContext(e.caller))
	}
	e.loop(call, u)
}

// check says whether another attempt follows the one that just ended, when it has waited
// for it. The transport recorded the attempt in more detail than go-retryablehttp does. The
// end of the context alone does not end the call: a complete answer wins.
func (e *exchange) check(err error) bool {
	if e.answer == nil && e.failed == nil {
		e.failed = err // net/http refused the request before the transport saw it
	}
	v := e.verdict()
	cause := e.failed
	if e.answer != nil {
		cause = e.answer.err()
		e.notePause(e.sent, e.answer.Status, v)
	}
	wait, again, stop := e.end(v, 1+e.repeats, cause)
	if errors.Is(cause, ErrUnmarked) {
		e.retryable = true // when the proxy lets the call pass; whether to repeat it is the caller's choice
		e.client.warnUnmarked(e.caller, e.task.Service)
	}
	e.observeAttempt(v, 1+e.repeats, wait, e.answer, cause)
	switch {
	case again && e.sleep(wait):
		return true
	case again:
		e.takeBack()
		e.fail(cause, e.checkTime(time.Now()))
	case v.Outcome == Completed && e.answer != nil && e.answer.usable():
		e.budgetSuccess()
	default:
		e.fail(cause, stop)
	}
	return false
}

// fail sets the call's error, with the last complete answer in it.
func (e *exchange) fail(err, stop error) {
	failed := e.run.fail(err, stop)
	if a := e.last; a != nil {
		failed.Status, failed.Code, failed.Detail, failed.Header = a.Status, a.shown(), a.detail, a.Header
		failed.Body = a.snippet()
		if len(a.Body) > len(failed.Body) { // an error may be kept for long
			failed.Body = bytes.Clone(failed.Body)
		}
	}
	e.err = failed
}

// loop runs the attempts of every call. Its policy belongs to a client and ours
// to a call, so it has none: each of its hooks finds its call by the context of
// the request.
var loop = &retryablehttp.Client{
	HTTPClient: &http.Client{Transport: attemptTransport{}, CheckRedirect: checkRedirect},
	RetryMax:   math.MaxInt, // check decides
	CheckRetry: func(ctx context.Context, _ *http.Response, err error) (bool, error) {
		return exchangeOf(ctx).check(err), nil
	},
	Backoff:      func(time.Duration, time.Duration, int, *http.Response) time.Duration { return 0 }, // check has waited
	ErrorHandler: retryablehttp.PassthroughErrorHandler,
}

// loop has the attempts of the call made. Its request has what net/http must know to follow
// redirects, without body and headers. Its context carries only e and
// never ends. The values and the end of the caller's ctx are in the context of an attempt.
func (e *exchange) loop(call *Call, u *url.URL) {
	req := &http.Request{
		Method: call.Method, URL: u, Host: call.host, Header: make(http.Header),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	req = req.WithContext(context.WithValue(context.Background(), exchangeKey{}, e))
	resp, _ := loop.Do(&retryablehttp.Request{Request: req}) // check has seen the error
	if resp != nil {
		_ = resp.Body.Close() // it was read within the attempt
	}
}

type exchangeKey struct{}

// exchangeOf returns the call that a request of loop belongs to.
func exchangeOf(ctx context.Context) *exchange {
	return ctx.Value(exchangeKey{}).(*exchange) //nolint:errcheck // loop gets no other requests
}

// maxRedirects is how many redirects one attempt follows.
const maxRedirects = 5

// checkRedirect is the http.Client.CheckRedirect of loop: what it declines is the attempt's
// answer. A redirect is followed only if the call asks for it, and if the same request goes
// to the same origin. The key must not reach another origin, and another method or body is
// another call.
func checkRedirect(req *http.Request, via []*http.Request) error {
	e := exchangeOf(req.Context())
	if !e.follow {
		return http.ErrUseLastResponse // its caller follows them
	}
	first := via[0]
	if len(via) > maxRedirects || req.Method != first.Method || !isSameOrigin(req.URL, first.URL) {
		return http.ErrUseLastResponse
	}
	if !keepsRequest(req.Response.StatusCode, req.Method) {
		return http.ErrUseLastResponse
	}
	if _, honoured := e.frozen.carrier.replayed(req.Response.Header); honoured {
		return http.ErrUseLastResponse // a handler ran and answered so: elsewhere the key is another request's
	}
	return nil
}

// keepsRequest reports whether a redirect of this status repeats the request as
// it is (RFC 9110 section 15.4).
func keepsRequest(status int, method string) bool {
	if status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect {
		return true
	}
	return method == http.MethodGet || method == http.MethodHead
}

func isSameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}
