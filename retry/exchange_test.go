package retry_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// Exchange returns an answer of any status, and with it what the call came to.
func TestExchange_answers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		step   step
		status int // 0: no answer
		want   retry.Outcome
	}{
		{"done", status(201), 201, retry.Completed},
		{"refused", answer(404, "no"), 404, retry.Rejected},
		{"failed after every attempt", status(503), 503, retry.Unknown},
		{"lost", fails(errBroken), 0, retry.Unknown},
		{"not connected", fails(errDial), 0, retry.NotSent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var calls retry.Calls
			req, closed := request(t, http.MethodPost, stubURL, "body")
			resp, failed := newClient(t, over(script(tt.step))).Exchange(req.WithContext(calls.Context(t.Context())), func(c *retry.Call) error {
				require.Equal(t, "body", string(c.Body))
				c.Key, c.Service, c.Operation = key, "payment", "charge"
				return nil
			})
			require.EqualValues(t, 1, closed.Load())
			require.Equal(t, tt.want, calls.Outcome())
			if tt.want == retry.Completed {
				require.Nil(t, failed)
			} else {
				require.Equal(t, tt.want, failed.Outcome)
				require.Equal(t, "payment", failed.Service)
				require.Equal(t, key, failed.Key)
			}
			if tt.status == 0 {
				require.Nil(t, resp)
				return
			}
			defer resp.Body.Close()
			require.Equal(t, tt.status, resp.StatusCode)
			_, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
		})
	}
}

// The key that a request is given is sent, and of the request's header nothing else changes.
func TestExchange_addsTheKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		profile *retry.Profile
		given   http.Header
		want    http.Header
	}{
		{"without a profile", nil, http.Header{"x-trace": {"a"}}, http.Header{"x-trace": {"a"}, wire.HeaderKey: {`"k-1"`}}},
		{"in place of another", nil, http.Header{"idempotency-key": {"random"}}, http.Header{wire.HeaderKey: {`"k-1"`}}},
		{"the same", nil, http.Header{"idempotency-key": {"k-1"}}, http.Header{"idempotency-key": {"k-1"}}},
		{"bare", &retry.Profile{Bare: true}, http.Header{wire.HeaderKey: {"random"}}, http.Header{wire.HeaderKey: {"k-1"}}},
	} {
		rt := script(status(503), status(200))
		req, _ := request(t, http.MethodPost, stubURL, "body")
		req.Header = tt.given
		before := tt.given.Clone()
		resp, failed := newClient(t, under(tt.profile, over(rt))).Exchange(req, func(c *retry.Call) error { c.Key = key; return nil })
		require.Nil(t, failed, tt.name)
		resp.Body.Close()
		require.Equal(t, before, req.Header, "the request is not changed")
		for _, sent := range rt.requests {
			require.Equal(t, tt.want, sent.Header, tt.name)
		}
	}
}

// A name that replaces the header need not put the key of the request there again: a call
// that is repeated for its key is sent with it.
func TestExchange_keepsTheKeyOfAReplacedHeader(t *testing.T) {
	t.Parallel()
	rt := script(status(503), status(200))
	req, _ := request(t, http.MethodPost, stubURL, "body")
	req.Header = http.Header{wire.HeaderKey: {`"k-1"`}}
	resp, failed := newClient(t, under(nil, over(rt))).Exchange(req, func(c *retry.Call) error {
		c.Header = http.Header{"X-Trace": {"a"}}
		return nil
	})
	require.Nil(t, failed)
	resp.Body.Close()
	require.Len(t, rt.requests, 2)
	for _, sent := range rt.requests {
		require.Equal(t, http.Header{"X-Trace": {"a"}, wire.HeaderKey: {`"k-1"`}}, sent.Header)
	}
}

func TestExchange_refuses(t *testing.T) {
	t.Parallel()
	rt := script(status(200))
	c := newClient(t, over(rt))
	unnamed := errors.New("no name")
	for _, resumed := range []bool{false, true} {
		req, closed := request(t, http.MethodPost, stubURL, "body")
		resp, failed := c.Exchange(req, func(call *retry.Call) error { //nolint:bodyclose // there is none
			call.Resumed = resumed
			return unnamed
		})
		require.Nil(t, resp)
		require.ErrorIs(t, failed, unnamed)
		require.Equal(t, resumed, failed.Outcome == retry.Unknown)
		require.Equal(t, !resumed, failed.Outcome == retry.NotSent)
		require.EqualValues(t, 1, closed.Load())
	}
	req, _ := request(t, http.MethodPost, stubURL, "body")
	elsewhere, _ := request(t, http.MethodPost, "http://other.test", "")
	req.Response = &http.Response{Request: elsewhere}
	_, failed := c.Exchange(req, func(call *retry.Call) error { call.Key = key; return nil }) //nolint:bodyclose // there is none
	require.ErrorIs(t, failed, retry.ErrInvalid, "a redirect from another origin")
	_, failed = c.Exchange(nil, nil) //nolint:bodyclose // there is none
	require.ErrorIs(t, failed, retry.ErrInvalid)
	_, failed = new(retry.Client).Exchange(req, nil) //nolint:bodyclose // there is none
	require.ErrorIs(t, failed, retry.ErrConfig)
	require.Zero(t, rt.count())

	req, _ = request(t, http.MethodPost, stubURL, "body")
	resp, failed := c.Exchange(req, nil)
	require.Nil(t, failed)
	resp.Body.Close()
	require.Equal(t, "", rt.header(wire.HeaderKey), "nothing names it")
}
