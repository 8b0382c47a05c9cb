package retry_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanonce/fanonce/retry"
)

// FuzzSend_anyAnswer checks the end of a call for any answer. The call ends in its time, with an
// answer or an error that has a cause. It makes no more attempts than allowed, and retries never
// sooner than the callee asked.
func FuzzSend_anyAnswer(f *testing.F) {
	f.Add(503, "Retry-After", "9223372036854775807", "", "")
	f.Add(429, "Retry-After", "1.5", "Date", "Thu, 01 Jan 1970 00:00:00 GMT")
	f.Add(409, "Content-Type", "application/problem+json", "Retry-After", "0")
	f.Add(-1, "Idempotent-Replayed", "true", "Idempotency-Should-Retry", "false")
	f.Fuzz(func(t *testing.T, code int, name1, value1, name2, value2 string) {
		synctest.Test(t, func(t *testing.T) {
			rt := roundTrip(func(req *http.Request) (*http.Response, error) {
				resp, err := status(code)(req)
				resp.Header.Set(name1, value1)
				resp.Header.Add(name2, value2)
				return resp, err
			})
			c, err := retry.New(retry.Config{Transport: rt, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			resp, err := c.Send(t.Context(), post(stubURL))
			if (resp == nil) == (err == nil) {
				t.Fatalf("Send = %v, %v, want one of them", resp, err)
			}
			if took := time.Since(start); took > time.Minute {
				t.Fatalf("took %v, want at most the timeout", took)
			}
			if failed, ok := err.(*retry.Error); ok && (failed.Err == nil || failed.Attempts > retry.DefaultMaxAttempts || failed.Attempts < 1) { //nolint:errorlint // Send returns it bare
				t.Fatalf("error = %+v, want a cause and no more attempts than allowed", failed)
			}
		})
	})
}
