package retry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// The outcome of all calls is the least certain of their outcomes. The effect of a completed call
// stays.
func TestCalls_Outcome(t *testing.T) {
	t.Parallel()
	type call struct {
		id      any
		resumed bool
		outcome retry.Outcome
	}
	for name, tt := range map[string]struct {
		calls []call
		want  retry.Outcome
	}{
		"none":                                {nil, retry.NotSent},
		"not sent":                            {[]call{{"a", false, retry.NotSent}}, retry.NotSent},
		"one rejected":                        {[]call{{"a", false, retry.NotSent}, {"b", false, retry.Rejected}}, retry.Rejected},
		"one completed":                       {[]call{{"a", false, retry.Completed}, {"b", false, retry.Rejected}}, retry.Completed},
		"one unknown":                         {[]call{{"a", false, retry.Unknown}, {"b", false, retry.Completed}}, retry.Unknown},
		"unknown, then refused":               {[]call{{"a", false, retry.Unknown}, {"a", false, retry.Rejected}}, retry.Unknown},
		"unknown, then refused for both":      {[]call{{"a", false, retry.Unknown}, {"a", true, retry.Rejected}}, retry.Rejected},
		"unknown, then completed":             {[]call{{"a", false, retry.Unknown}, {"a", false, retry.Completed}}, retry.Completed},
		"completed, then refused for both":    {[]call{{"a", false, retry.Completed}, {"a", true, retry.Rejected}}, retry.Completed},
		"without an id, each is its own call": {[]call{{nil, false, retry.Unknown}, {nil, true, retry.Rejected}}, retry.Unknown},
		"without an id, rejected":             {[]call{{nil, false, retry.NotSent}, {nil, false, retry.Rejected}}, retry.Rejected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls retry.Calls
			for _, c := range tt.calls {
				end := calls.Begin(c.id, c.resumed)
				require.Equal(t, retry.Unknown, calls.Outcome(), "while it is under way")
				end(c.outcome)
			}
			require.Equal(t, tt.want, calls.Outcome())
			require.Equal(t, tt.want == retry.Unknown, calls.Unknown() > 0)
		})
	}
	var none *retry.Calls
	none.Begin("a", false)(retry.Completed)
	require.Equal(t, retry.NotSent, none.Outcome())
	require.Nil(t, retry.CallsFrom(t.Context()))
}

// Every way to make a call is noted, and its error is known again.
func TestCalls_noted(t *testing.T) {
	t.Parallel()
	client := newClient(t, over(roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/no" {
			return status(http.StatusPaymentRequired, wire.HeaderReplayed, "false")(req)
		}
		return status(http.StatusOK)(req)
	})))
	send := func(method, path string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := client.Send(ctx, retry.Call{Method: method, URL: "http://a.test" + path, Key: childkey.MustParse("k" + path[1:])})
			return err
		}
	}
	for name, tt := range map[string]struct {
		call func(ctx context.Context) error
		want retry.Outcome
	}{
		"Send":             {send(http.MethodPost, "/yes"), retry.Completed},
		"Send, refused":    {send(http.MethodPost, "/no"), retry.Rejected},
		"Send, a read":     {send(http.MethodGet, "/yes"), retry.NotSent},
		"Send, a bad call": {send("no method", "/yes"), retry.NotSent},
		"Refuse":           {func(ctx context.Context) error { return client.Refuse(ctx, retry.Task{}, errors.New("no")) }, retry.NotSent},
		"Do of the package": {func(ctx context.Context) error {
			_, err := retry.Do(ctx, client, retry.Task{}, func(context.Context, retry.Attempt) (int, error) { return 0, nil }, nil)
			return err
		}, retry.Completed},
		"RoundTripper": {func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a.test/yes", nil)
			require.NoError(t, err)
			resp, err := client.RoundTripper().RoundTrip(req)
			if err == nil {
				err = resp.Body.Close()
			}
			return err
		}, retry.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls, around, others retry.Calls
			others.Context(calls.Context(t.Context())) // another ctx inside
			ctx := calls.Context(around.Context(t.Context()))
			require.Equal(t, ctx, calls.Context(ctx), "nothing is noted twice")
			require.Equal(t, ctx, (*retry.Calls)(nil).Context(ctx))
			err := tt.call(ctx)
			require.Equal(t, tt.want, calls.Outcome())
			require.Equal(t, tt.want, around.Outcome(), "of the ctx around")
			require.Equal(t, retry.NotSent, others.Outcome())
			var failed *retry.Error
			if errors.As(err, &failed) {
				require.True(t, calls.Made(failed))
				require.True(t, around.Made(failed))
				require.False(t, others.Made(failed))
			}
			require.False(t, calls.Made(&retry.Error{}))
		})
	}
}

// A call that passes ends with the body of its answer. It is Unknown if that body breaks
// off. A call by a safe method leaves nothing.
func TestCalls_ofWhatPasses(t *testing.T) {
	t.Parallel()
	whole := func(*testing.T, io.ReadCloser) {}
	for name, tt := range map[string]struct {
		method string
		step   step
		read   func(*testing.T, io.ReadCloser) // before Close; nil means that nobody reads
		want   retry.Outcome
	}{
		"done":                       {http.MethodPost, answer(200, "done"), whole, retry.Completed},
		"done, without a body":       {http.MethodPost, answerOf(http.NoBody), nil, retry.Completed},
		"done, read to the end":      {http.MethodPost, answer(200, "done"), readAll, retry.Completed},
		"done, broken off":           {http.MethodPost, answerOf(io.NopCloser(&failingReader{})), readAll, retry.Unknown},
		"refused":                    {http.MethodPost, answer(402, "no"), whole, retry.Rejected},
		"failed":                     {http.MethodPost, answer(500, "oops"), readAll, retry.Unknown},
		"lost":                       {http.MethodPost, fails(errBroken), nil, retry.Unknown},
		"not connected":              {http.MethodPost, fails(errDial), nil, retry.NotSent},
		"turned away":                {http.MethodDelete, answer(429, "later"), whole, retry.Rejected},
		"a read, failed":             {http.MethodGet, answer(500, "oops"), whole, retry.NotSent},
		"a read, lost":               {http.MethodGet, fails(errBroken), nil, retry.NotSent},
		"a read, with half a answer": {http.MethodGet, answerOf(io.NopCloser(&failingReader{})), readAll, retry.NotSent},
		"another protocol":           {http.MethodPost, answer(101, ""), nil, retry.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls retry.Calls
			req := unkeyed(t, calls.Context(t.Context()), tt.method, stubURL, "body")
			resp, err := newClient(t, over(script(tt.step))).RoundTripper().RoundTrip(req)
			if err != nil {
				var failed *retry.Error
				require.ErrorAs(t, err, &failed)
				require.True(t, calls.Made(failed))
			} else {
				defer resp.Body.Close()
			}
			if tt.read != nil {
				if tt.method != http.MethodGet {
					require.Equal(t, 1, calls.Unknown(), "under way")
				}
				tt.read(t, resp.Body)
				require.NoError(t, resp.Body.Close())
				require.NoError(t, resp.Body.Close())
			}
			require.Equal(t, tt.want, calls.Outcome())
		})
	}
}

func readAll(_ *testing.T, body io.ReadCloser) { io.Copy(io.Discard, body) }

func answerOf(body io.ReadCloser) step {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, Request: req}, nil
	}

}

// A call that one ctx after the other carries is one call to all of them.
func TestCalls_nested(t *testing.T) {
	t.Parallel()
	var outer, inner retry.Calls
	ctx := inner.Context(outer.Context(t.Context()))
	end := retry.CallsFrom(ctx).Begin("a", false)
	require.Equal(t, 1, outer.Unknown())
	require.Equal(t, 1, inner.Unknown())
	require.False(t, outer.Ended("a"))
	end(retry.Completed)
	require.Equal(t, retry.Completed, outer.Outcome())
	require.Equal(t, retry.Completed, inner.Outcome())
	require.Equal(t, retry.Completed, retry.CallsFrom(ctx).Outcome())
	require.True(t, outer.Ended("a"))
	require.True(t, retry.CallsFrom(ctx).Ended("a"))
	require.False(t, outer.Ended("b"))
	require.False(t, (*retry.Calls)(nil).Ended("a"))
	retry.CallsFrom(outer.Context(t.Context())).Begin("b", false)(retry.Rejected)
	require.False(t, inner.Ended("b"), "it was made outside")
}

// An outcome that there is not counts as Unknown.
func TestCalls_noSuchOutcome(t *testing.T) {
	t.Parallel()
	var calls retry.Calls
	calls.Begin(nil, false)(retry.Completed + 1)
	require.Equal(t, retry.Unknown, calls.Outcome())
	calls.Begin("id", false)(255)
	require.Equal(t, 2, calls.Unknown())
}
