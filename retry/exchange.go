package retry

import (
	"bytes"
	"context"
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
	frozen   frozen
	follow   bool // redirects
	standard bool // net/http's response is wanted, whatever its status

	repeats int       // deliveries that net/http added to the attempt
	seen    *evidence // of the last request of the attempt; nil: none was sent yet
	answer  *answer   // of the attempt; nil: not complete
	failed  error     // why the attempt has no answer

	last *answer // of the call
	err  *Error
}

// exchange makes the call; follow says whether it follows redirects itself.
func (c *Client) exchange(ctx context.Context, call *Call, follow bool) *exchange {
	x := &exchange{follow: follow, standard: call.owned}
	c.made().carrier.expire(call)
	x.task = Task{Service: call.Service, Operation: call.Operation, Key: call.Key, Resumed: call.Resumed, Expires: call.Expires}
	x.safe = !call.Key.IsZero() || isIdempotent(call.Method)
	x.resume(ctx, isSafe(call.Method))
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
	u, err := x.frozen.freeze(call, &x.client.carrier)
	if err != nil {
		x.fail(nil, err)
		return
	}
	if stop := x.checkTime(x.start); stop != nil {
		x.retryable = true
		x.fail(nil, stop)
		return
	}
	x.loop(call, u)
}

// check says whether another attempt follows the one that just ended, when it has waited
// for it. The transport recorded the attempt in more detail than go-retryablehttp does. The
// end of the context alone does not end the call: a complete answer wins.
func (x *exchange) check(err error) bool {
	if x.answer == nil && x.failed == nil {
		x.failed = err // net/http refused the request before the transport saw it
	}
	v := x.verdict()
	cause := x.failed
	if x.answer != nil {
		cause = x.answer.err()
	}
	wait, again, stop := x.end(v, 1+x.repeats, cause)
	x.observeAttempt(v, 1+x.repeats, wait, x.answer, cause)
	switch {
	case again && x.sleep(wait):
		return true
	case again:
		x.takeBack()
		x.fail(cause, x.checkTime(time.Now()))
	case v.Outcome == Completed && x.answer != nil && x.answer.usable():
		x.budgetSuccess()
	default:
		x.fail(cause, stop)
	}
	return false
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
// redirects, without body and headers. Its context carries only x and
// never ends. The values and the end of the caller's ctx are in the context of an attempt.
func (x *exchange) loop(call *Call, u *url.URL) {
	req := &http.Request{
		Method: call.Method, URL: u, Host: call.host, Header: make(http.Header),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	req = req.WithContext(context.WithValue(context.Background(), exchangeKey{}, x))
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
	x := exchangeOf(req.Context())
	if !x.follow {
		return http.ErrUseLastResponse // its caller follows them
	}
	first := via[0]
	if len(via) > maxRedirects || req.Method != first.Method || !isSameOrigin(req.URL, first.URL) {
		return http.ErrUseLastResponse
	}
	if !keepsRequest(req.Response.StatusCode, req.Method) {
		return http.ErrUseLastResponse
	}
	if _, honoured := x.frozen.carrier.replayed(req.Response.Header); honoured {
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
