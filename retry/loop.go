package retry

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// loop runs the attempts of every call. Its policy belongs to a client and ours
// to a call, so it has none: each of its hooks finds its call in the context of
// the request, which carries nothing else and never ends.
var loop = &retryablehttp.Client{
	HTTPClient: &http.Client{Transport: attemptTransport{}, CheckRedirect: checkRedirect},
	RetryMax:   math.MaxInt, // check decides
	CheckRetry: func(ctx context.Context, _ *http.Response, err error) (bool, error) {
		return exchangeOf(ctx).check(err), nil
	},
	Backoff:      func(time.Duration, time.Duration, int, *http.Response) time.Duration { return 0 }, // check has waited
	ErrorHandler: retryablehttp.PassthroughErrorHandler,
}

type exchangeKey struct{}

// exchangeOf returns the call that a request of loop belongs to.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// loopContext is the context by which loop's hooks find the call.
func (x *exchange) loopContext() context.Context {
	return context.WithValue(context.Background(), exchangeKey{}, x)
}
