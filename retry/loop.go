package retry

import (
	"context"
	"math"
	"net/http"
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
