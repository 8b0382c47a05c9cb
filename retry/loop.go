package retry

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

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

// newLooped returns the request that loop repeats for x: what net/http has to know to
// follow redirects, without body and headers, and with x as its context.
func newLooped(x *exchange) *http.Request {
	req := &http.Request{Header: noHeader, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return req.WithContext((*loopContext)(x))
}

// noHeader is the header of every such request; nobody writes into it.
var noHeader = http.Header{}

// loop has the attempts of the call made.
func (x *exchange) loop(call *Call, u *url.URL) {
	x.looped.Method, x.looped.URL, x.looped.Host = call.Method, u, call.host
	x.given.Request = x.looped
	resp, _ := loop.Do(&x.given) // what it returns, check has seen before
	if resp != nil {
		_ = resp.Body.Close() // it was read within the attempt
	}
}

// A loopContext is an exchange as the context of loop's requests. It never ends,
// and carries nothing: what ends and carries is the context of an attempt.
type loopContext exchange

// exchangeOf returns the call that a request of loop belongs to.
func exchangeOf(ctx context.Context) *exchange {
	return (*exchange)(ctx.(*loopContext)) //nolint:errcheck // loop has no other requests
}

func (*loopContext) Deadline() (at time.Time, ok bool) { return time.Time{}, false }
func (*loopContext) Done() <-chan struct{}             { return nil }
func (*loopContext) Err() error                        { return nil }
func (*loopContext) Value(any) any                     { return nil }
