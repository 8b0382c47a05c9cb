package retry_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// An earlier run of the inbound request may have made a call: a gateway that refuses it now
// proves nothing. A stored refusal does, and a read has no effect.
func TestCalls_inARerun(t *testing.T) {
	t.Parallel()
	send := func(method string, key childkey.Key) func(context.Context, *retry.Client) {
		return func(ctx context.Context, c *retry.Client) {
			c.Send(ctx, retry.Call{Method: method, URL: stubURL, Key: key})
		}
	}
	roundTrip := func(key string, do func(*retry.Client, *http.Request) (*http.Response, error)) func(context.Context, *retry.Client) {
		return func(ctx context.Context, c *retry.Client) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, stubURL, nil)
			require.NoError(t, err)
			if key != "" {
				req.Header.Set(wire.HeaderKey, key)
			}
			if resp, err := do(c, req); err == nil {
				resp.Body.Close()
			}
		}
	}
	through := func(c *retry.Client, req *http.Request) (*http.Response, error) {
		return c.RoundTripper().RoundTrip(req)
	}
	ways := map[string]func(context.Context, *retry.Client){
		"Send":                        send(http.MethodPost, key),
		"Send, without a key":         send(http.MethodPost, childkey.Key{}),
		"Do":                          roundTrip("k", (*retry.Client).Do),
		"RoundTripper":                roundTrip("k", through),
		"RoundTripper, without a key": roundTrip("", through),
		"Do of the package": func(ctx context.Context, c *retry.Client) {
			_, err := retry.Do(ctx, c, retry.Task{Key: key}, func(context.Context, retry.Attempt) (int, error) { return 0, errBroken },
				func(int, error) retry.Verdict { return retry.Verdict{Outcome: retry.Rejected} })
			require.Error(t, err)
		},
	}
	for name, call := range ways {
		for _, rerun := range []bool{false, true} {
			want := retry.Rejected
			if rerun {
				want = retry.Unknown
			}
			var calls retry.Calls
			ctx := wire.NewContext(t.Context(), wire.Inbound{Rerun: rerun})
			call(calls.Context(ctx), newClient(t, over(script(status(http.StatusForbidden)))))
			require.Equal(t, want, calls.Outcome(), "%s, rerun: %v", name, rerun)
		}
	}
	ctx := wire.NewContext(t.Context(), wire.Inbound{Rerun: true})
	stored := newClient(t, over(script(status(http.StatusPaymentRequired, wire.HeaderReplayed+": false"))))
	require.Equal(t, retry.Rejected, failureContext(t, ctx, stored, post(stubURL)).Outcome, "proven")
	read := retry.Call{Method: http.MethodGet, URL: stubURL}
	require.Equal(t, retry.Rejected, failureContext(t, ctx, newClient(t, over(script(status(http.StatusForbidden)))), read).Outcome)
	_, err := newClient(t, over(script(status(http.StatusOK)))).Send(ctx, post(stubURL))
	require.NoError(t, err)
	refused := stored.Refuse(ctx, retry.Task{}, errBroken)
	require.Equal(t, retry.NotSent, refused.Outcome, "it speaks of this run alone")
}
