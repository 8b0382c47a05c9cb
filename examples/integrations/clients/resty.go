package clients

import (
	"time"

	"github.com/go-resty/resty/v2"
)

// NewResty returns a client for keyed calls. It does not retry unless it is told to, and then only failed connections.
func NewResty() *resty.Client {
	return resty.New().
		SetTimeout(10 * time.Second). // of one attempt
		SetRetryCount(10).
		SetRetryWaitTime(100 * time.Millisecond).
		SetRetryMaxWaitTime(2 * time.Second).
		AddRetryCondition(func(resp *resty.Response, err error) bool {
			return err != nil || Retryable(resp.StatusCode(), resp.Header())
		})
}
