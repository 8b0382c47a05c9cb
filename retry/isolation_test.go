package retry_test

import (
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A transport may still hold the request of an attempt that failed, as that of
// HTTP/2 does, which writes in a goroutine of its own. What it does there must
// not reach the next attempt, nor race with it.
func TestSend_attemptsShareNothing(t *testing.T) {
	t.Parallel()
	var late sync.WaitGroup
	second, done := make(chan struct{}), make(chan struct{})
	bodies := make(chan string, 2)
	rt := roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Header.Get(wire.HeaderRetryAttempt) == "1" {
			io.CopyN(io.Discard, req.Body, 3)
			late.Go(func() {
				<-second
				req.Header.Set(wire.HeaderKey, "changed")
				req.Header.Set("X-Trace", "changed")
				req.URL.Path = "/changed"
				rest, _ := io.ReadAll(req.Body)
				bodies <- string(rest)
				close(done)
			})
			return nil, errBroken
		}
		close(second)
		body, err := io.ReadAll(req.Body)
		require.NoError(t, err)
		bodies <- string(body)
		require.Equal(t, `"k-1"`, req.Header.Get(wire.HeaderKey))
		require.Equal(t, "a", req.Header.Get("X-Trace"))
		require.Equal(t, "/charges", req.URL.Path)
		<-done
		require.Equal(t, `"k-1"`, req.Header.Get(wire.HeaderKey))
		return status(200)(req)
	})
	call := post(stubURL)
	call.Header = http.Header{"X-Trace": {"a"}}
	_, err := newClient(t, over(rt)).Send(t.Context(), call)
	require.NoError(t, err)
	late.Wait()
	require.ElementsMatch(t, []string{`{"amount":5}`, `mount":5}`}, []string{<-bodies, <-bodies})
}

// The answer's body can be read when its attempt, and the call, are over.
func TestDo_bodyOutlivesItsAttempt(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		page := make([]byte, 1<<20)
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			drain(r)
			w.Write(page)
		})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, nil)
		require.NoError(t, err)
		req.Header.Set(wire.HeaderKey, "k-1")
		resp, err := newClient(t, cfg).Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		srv.CloseClientConnections()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Len(t, body, len(page))
	})
}
