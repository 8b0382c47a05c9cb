package sdk_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/answertest"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// TestCall_answers plays the rows of HTTP over sockets, by operations.
func TestCall_answers(t *testing.T) {
	t.Parallel()
	for _, r := range answertest.Rows(t, "../retry/testdata/answers.json", "http") {
		if r.Only != "" || r.Method != "" || r.Status == http.StatusNoContent { // the operation has an output
			continue
		}
		t.Run(r.Name(), func(t *testing.T) {
			t.Parallel()
			for doubt, want := range map[bool]answertest.End{false: r.First, true: r.Doubt} {
				policy := quick
				policy.MaxAttempts, policy.MaxPolls, policy.MaxResponseBytes = 3, 2, r.MaxResponseBytes
				if r.Failure == "silent" {
					policy.AttemptTimeout = time.Second
				}
				c, err := sdk.New(sdk.Config{Retry: policy, Services: map[string]sdk.Service{
					"payment": {URL: answertest.Serve(t, r, doubt), Profile: r.ClientProfile(t)},
				}})
				require.NoError(t, err)
				t.Cleanup(c.Close)
				got, err := sdk.Call(parent(t, "p"), c, pay, amount{1})
				if err == nil {
					require.Equal(t, want.Outcome, retry.Completed.String())
					require.Equal(t, charge{"7"}, got)
					continue
				}
				var failed *retry.Error
				require.True(t, errors.As(err, &failed), "%v", err)
				require.Equal(t, want, answertest.End{Outcome: failed.Outcome.String(), Attempts: failed.Attempts}, "doubt %v: %v", doubt, err)
			}
		})
	}
}
