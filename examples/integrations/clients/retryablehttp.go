package clients

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// NewRetryableHTTP returns a client for keyed calls. Its own rule takes a 409 for final. The last answer is returned
// as it is, so that the caller sees its status. Send requests with [ReadWhole].
func NewRetryableHTTP() *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.Logger = nil
	c.HTTPClient.Timeout = 10 * time.Second // of one attempt
	c.RetryMax = 10
	c.RetryWaitMin, c.RetryWaitMax = 100*time.Millisecond, 2*time.Second
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	c.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		return err != nil || Retryable(resp.StatusCode, resp.Header), nil
	}
	return c
}

// ReadWhole makes c read the answer within the attempt. Without it, an answer that is cut in its body is not retried:
// Do has returned by then.
func ReadWhole(req *retryablehttp.Request) *retryablehttp.Request {
	req.SetResponseHandler(func(resp *http.Response) error {
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return err
	})
	return req
}
