package retry_test

import (
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A transport may still hold the request of an attempt that failed, as that of HTTP/2 does, which
// writes in a goroutine of its own. The work of that goroutine must not reach the next attempt,
// nor race with it.
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

// Calls must not share state either: a transport may hold requests of finished calls while other
// calls are running.
func TestSend_callsShareNothing(t *testing.T) {
	t.Parallel()
	type sent struct {
		number string
		req    *http.Request
	}
	held := make(chan sent, 100)
	c := newClient(t, over(roundTrip(func(req *http.Request) (*http.Response, error) {
		drain(req)
		held <- sent{req.Header.Get("X-Number"), req}
		return answer(200, req.Header.Get("X-Number"))(req)
	})))
	var calls, late sync.WaitGroup
	for i := range cap(held) {
		calls.Go(func() {
			number := strconv.Itoa(i)
			call := post(stubURL + "/" + number)
			call.Key, call.Body = mustKey("k-"+number), []byte(number)
			call.Header = http.Header{"X-Number": {number}}
			resp, err := c.Send(t.Context(), call)
			if assert.NoError(t, err) {
				assert.Equal(t, number, string(resp.Body))
			}
		})
		late.Go(func() {
			s := <-held
			body, err := s.req.GetBody()
			if !assert.NoError(t, err) {
				return
			}
			text, err := io.ReadAll(body)
			assert.NoError(t, err)
			assert.Equal(t, s.number, string(text))
			assert.Equal(t, `"k-`+s.number+`"`, s.req.Header.Get(wire.HeaderKey))
			assert.Equal(t, "/charges/"+s.number, s.req.URL.Path)
			<-s.req.Context().Done() // it ends with the hop
		})
	}
	calls.Wait()
	late.Wait()
}

// A call that a hook of the caller's leaves by a panic leaves nothing to later ones.
func TestSend_afterAPanic(t *testing.T) {
	t.Parallel()
	cfg := over(roundTrip(status(200)))
	cfg.Prepare = func(_ int, req *http.Request) error {
		if req.Header.Get("X-Panic") != "" {
			panic("the hook's own")
		}
		return nil
	}
	c := newClient(t, cfg)
	for range 20 {
		call := post(stubURL)
		call.Header = http.Header{"X-Panic": {"1"}}
		require.PanicsWithValue(t, "the hook's own", func() { c.Send(t.Context(), call) })
		resp, err := c.Send(t.Context(), post(stubURL))
		require.NoError(t, err)
		require.Equal(t, 1, resp.Attempts)
	}
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
