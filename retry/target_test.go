package retry_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// sentTo calls each URL and returns where the requests went.
func sentTo(t *testing.T, c *retry.Client, arrived *[]string, urls ...string) []string {
	t.Helper()
	*arrived = nil
	for _, url := range urls {
		_, err := c.Send(t.Context(), post(url))
		require.NoError(t, err)
	}
	return *arrived
}

// note makes a transport that notes where requests go and then rewrites them.
func note(arrived *[]string) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		*arrived = append(*arrived, req.URL.String())
		req.URL.Scheme, req.URL.Host, req.URL.Path, req.URL.RawQuery = "https", "elsewhere.test", "/changed", "changed"
		return status(200)(req)
	})
}

// A transport that changes the URL of one call changes no other call.
func TestSend_sameURLAgain(t *testing.T) {
	t.Parallel()
	var arrived []string
	c := newClient(t, over(note(&arrived)))
	for _, url := range []string{stubURL, stubURL + "/a%2Fb?q=1", "http://user:word@callee.test/"} {
		require.Equal(t, []string{url, url, url, url}, sentTo(t, c, &arrived, url, url+"#fragment", url, url+"#fragment"))
		require.Equal(t, []string{url, url, url, url}, sentTo(t, c, &arrived, url, url, url, url))
	}
}

// A URL is refused each time, without being shown.
func TestSend_badURLAgain(t *testing.T) {
	t.Parallel()
	rt := script()
	c := newClient(t, over(rt))
	for range 4 {
		failed := failure(t, c, post("http://h:65536/secret"))
		require.ErrorIs(t, failed, retry.ErrInvalid)
		require.Equal(t, retry.NotSent, failed.Outcome)
		require.NotContains(t, failed.Error(), "secret")
	}
	require.Zero(t, rt.count())
}
