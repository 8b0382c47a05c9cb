package retry_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// A Client that New did not make says so, whichever way it is asked, and makes no call.
func TestClient_unmade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*retry.Client{"nil": nil, "zero": {}} {
		for way, call := range map[string]func() error{
			"Send": func() error {
				_, err := c.Send(t.Context(), post(stubURL))
				return err
			},
			"Do": func() error {
				req, _ := request(t, http.MethodPost, stubURL, "body")
				resp, err := c.Do(req) //nolint:bodyclose // there is none
				require.Nil(t, resp)
				return err
			},
			"RoundTripper": func() error {
				req, _ := request(t, http.MethodPost, stubURL, "body")
				_, err := c.RoundTripper().RoundTrip(req) //nolint:bodyclose // there is none
				return err
			},
			"retry.Do": func() error {
				_, err := retry.Do(t.Context(), c, task, func(context.Context, retry.Attempt) (string, error) {
					t.Error("an attempt was made")
					return "", nil
				}, nil)
				return err
			},
			"Refuse": func() error { return c.Refuse(t.Context(), task, retry.ErrConfig) },
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				err := call()
				require.ErrorIs(t, err, retry.ErrConfig)
				require.ErrorIs(t, err, retry.ErrNotSent)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				require.False(t, doFailure(t, err).Retryable)
			})
		}
	}
}

func TestDo_noRequest(t *testing.T) {
	t.Parallel()
	c := newClient(t, over(script()))
	_, err := c.Do(nil) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, retry.ErrInvalid)
	require.ErrorIs(t, err, retry.ErrNotSent)
	_, err = c.RoundTripper().RoundTrip(nil) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, retry.ErrInvalid)
}
