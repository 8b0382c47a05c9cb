package retry_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"unsafe"

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

// What a transport does to the URL of one call reaches no other call.
func TestSend_sameURLAgain(t *testing.T) {
	t.Parallel()
	var arrived []string
	c := newClient(t, over(note(&arrived)))
	for _, url := range []string{stubURL, stubURL + "/a%2Fb?q=1", "http://user:word@callee.test/"} {
		require.Equal(t, []string{url, url, url, url}, sentTo(t, c, &arrived, url, url+"#fragment", url, url+"#fragment"))
		require.Equal(t, []string{url, url, url, url}, sentTo(t, c, &arrived, url, url, url, url))
	}
}

// More URLs than a client remembers, in several orders.
func TestSend_manyURLs(t *testing.T) {
	t.Parallel()
	var arrived []string
	c := newClient(t, over(note(&arrived)))
	var urls []string
	for i := range 500 {
		url := fmt.Sprintf("%s/%d", stubURL, i)
		urls = append(urls, url, url, url)
	}
	for range 3 {
		require.Equal(t, urls, sentTo(t, c, &arrived, urls...))
	}
}

// A caller may build its URLs in memory that it uses again.
func TestSend_urlInReusedMemory(t *testing.T) {
	t.Parallel()
	var arrived []string
	c := newClient(t, over(note(&arrived)))
	memory := []byte(stubURL + "/%20000")
	url := unsafe.String(&memory[0], len(memory))
	for i := range 500 {
		copy(memory[len(memory)-3:], fmt.Sprintf("%03d", i))
		want := strings.Clone(url)
		require.Equal(t, []string{want, want, want}, sentTo(t, c, &arrived, url, url, url))
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

func TestSend_sameURLsConcurrently(t *testing.T) {
	t.Parallel()
	c := newClient(t, over(roundTrip(func(req *http.Request) (*http.Response, error) {
		at := strings.Clone(req.URL.Path)
		req.URL.Path = "/changed"
		return answer(200, at)(req)
	})))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 400 {
				path := fmt.Sprintf("/%d", i%100)
				resp, err := c.Send(t.Context(), post("http://callee.test"+path))
				if err != nil || string(resp.Body) != path {
					t.Errorf("%s: %v %v", path, resp, err)
				}
			}
		})
	}
	all.Wait()
}
