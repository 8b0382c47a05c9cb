package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

type received struct {
	*http.Response
	body string
	err  error // of reading the body
}

// post sends one request over the network and reads the answer.
func post(tb testing.TB, srv *httptest.Server, key string) received {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, srv.URL+"/orders", strings.NewReader("b"))
	require.NoError(tb, err)
	req.Header.Set(wire.HeaderKey, key)
	req.Header.Set("Accept-Encoding", "identity")
	client := *srv.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := client.Do(req)
	require.NoError(tb, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return received{res, string(body), err}
}

func headerText(w *httptest.ResponseRecorder) string {
	var lines []string
	for name, values := range w.Header() {
		lines = append(lines, fmt.Sprint(name, values))
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func streaming(tb testing.TB, s store.Store, cfg server.Config, next http.HandlerFunc) *httptest.Server {
	tb.Helper()
	h, err := newGuard(tb, s, cfg).Route(server.Route{Effect: server.Keyed, Stream: server.StreamTombstone}, next)
	require.NoError(tb, err)
	srv := httptest.NewServer(h)
	tb.Cleanup(srv.Close)
	return srv
}

func TestStream_tombstone(t *testing.T) {
	t.Parallel()
	runs := 0
	srv := streaming(t, memstore.New(), server.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		runs++
		w.Header().Set("Content-Length", "7")
		fmt.Fprint(w, "one")
		_ = http.NewResponseController(w).Flush()
		fmt.Fprint(w, "more")
	})
	first := post(t, srv, "k")
	require.NoError(t, first.err)
	require.Equal(t, "onemore", first.body)
	require.EqualValues(t, -1, first.ContentLength, "a stream announces no length: a cut must show")
	again := post(t, srv, "k")
	require.Equal(t, http.StatusGone, again.StatusCode)
	require.Contains(t, again.body, string(wire.ResponseGone))
	require.Equal(t, 1, runs)
}

// A stream that was sent, but whose outcome could not be recorded, must not
// look complete.
func TestStream_cutWhenNotRecorded(t *testing.T) {
	t.Parallel()
	s := &flaky{TxStore: memstore.New()}
	s.settle = func(context.Context, store.Owner, store.Settlement) error { return server.ErrLeaseLost }
	srv := streaming(t, s, server.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "all of it")
		_ = http.NewResponseController(w).Flush()
	})
	require.ErrorIs(t, post(t, srv, "k").err, io.ErrUnexpectedEOF)
}

func TestStream_hijack(t *testing.T) {
	t.Parallel()
	srv := streaming(t, memstore.New(), server.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		_ = rw.Flush()
	})
	require.Equal(t, "hi", post(t, srv, "k").body)
	require.Equal(t, http.StatusGone, postUntilDone(t, srv).StatusCode)
}

func TestHandler_trailersMakeATombstone(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Sum", "42")
	})
	srv := httptest.NewServer(h)
	defer srv.Close()
	first := post(t, srv, "k")
	require.Equal(t, "body", first.body)
	require.Equal(t, "42", first.Trailer.Get("X-Sum"))
	require.Equal(t, http.StatusGone, post(t, srv, "k").StatusCode)
}

func TestRecorder_passesDeadlinesOn(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		if err := c.SetWriteDeadline(time.Time{}); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	srv := httptest.NewServer(h)
	defer srv.Close()
	require.Equal(t, http.StatusOK, post(t, srv, "k").StatusCode)
}

// A client that hangs up must not end the run or lose its record.
func TestHandler_clientHangsUp(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	h, _ := guarded(t, server.Opaque, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-leave
		ended <- r.Context().Err()
		fmt.Fprint(w, "done")
	})
	gone := make(chan struct{}) // the outer request's ctx has ended
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() {
			<-r.Context().Done()
			select {
			case <-gone:
			default:
				close(gone)
			}
		}()
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	fmt.Fprint(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 1\r\n\r\nb")
	<-entered
	require.NoError(t, conn.Close())
	<-gone
	close(leave)
	require.NoError(t, <-ended, "the run's ctx")
	require.Equal(t, "done", postUntilDone(t, srv).body)
}

// postUntilDone asks for the outcome of a run that is about to be recorded.
func postUntilDone(tb testing.TB, srv *httptest.Server) received {
	tb.Helper()
	for {
		if res := post(tb, srv, "k"); res.StatusCode != http.StatusConflict {
			return res
		}
	}
}

func TestHandler_abortReachesTheClient(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t, server.Keyed, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	srv := httptest.NewServer(h)
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 1\r\n\r\nb")
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Empty(t, answer)
}

// A client that asks whether to send its body is told once to send it, and is
// served like any other.
func TestHandler_expectContinue(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h, _ := guarded(t, server.Keyed, answer(http.StatusOK, &runs))
	srv := httptest.NewServer(h)
	defer srv.Close()
	for _, replayed := range []string{"false", "true"} {
		continues := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { continues++ }})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, strings.NewReader("b"))
		require.NoError(t, err)
		req.Header.Set("Expect", "100-continue")
		req.Header.Set(wire.HeaderKey, "k")
		transport := &http.Transport{ExpectContinueTimeout: time.Minute}
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		transport.CloseIdleConnections()
		require.Equal(t, 1, continues)
		require.Equal(t, firstAnswer, string(body))
		require.Equal(t, replayed, resp.Header.Get(wire.HeaderReplayed))
	}
	require.EqualValues(t, 1, runs.Load())
}
