package retry_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func reverseProxy(t *testing.T, target string, rt http.RoundTripper) *httputil.ReverseProxy {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, Transport: rt}
}

// The connection ends after the answer where the request says so, under a key too.
func TestRoundTripper_close(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"X-Other", "Idempotency-Key"} {
		var closes atomic.Int32
		srv, cfg := serve(t, plain, func(_ http.ResponseWriter, r *http.Request) {
			if r.Close {
				closes.Add(1)
			}
		})
		req := unkeyed(t, t.Context(), http.MethodGet, srv.URL, "")
		req.Header.Set(header, `"k"`)
		req.Close = true
		_, err := passed(newClient(t, cfg), req)
		require.NoError(t, err)
		require.EqualValues(t, 1, closes.Load(), header)
	}
}

// A body that is cut short by the caller's ctx, or by http.Client.Timeout, says so.
func TestPass_endInTheBody(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		var hits atomic.Int32
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			hits.Add(1)
			io.WriteString(w, "begin")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // else the answer might end in the last moment
		})
		for name, tt := range map[string]struct {
			ctx     func() (context.Context, context.CancelFunc)
			timeout time.Duration
			want    error
		}{
			"cancelled": {func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }, 0, context.Canceled},
			"deadline": {func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), 200*ms)
			}, 0, context.DeadlineExceeded},
			"Client.Timeout": {func() (context.Context, context.CancelFunc) { return t.Context(), func() {} }, 200 * ms, nil},
		} {
			ctx, cancel := tt.ctx()
			client := through(t, cfg)
			client.Timeout = tt.timeout
			resp, err := client.Do(unkeyed(t, ctx, http.MethodGet, srv.URL, ""))
			if err != nil { // the machine is slow: the time was up before
				require.NotErrorIs(t, err, context.Canceled, name)
				cancel()
				continue
			}
			begin := make([]byte, 5)
			_, err = io.ReadFull(resp.Body, begin)
			if name == "cancelled" {
				require.NoError(t, err, name)
				require.Equal(t, "begin", string(begin))
				cancel()
			}
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
			}
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want, name)
			}
			var timeout interface{ Timeout() bool }
			require.Equal(t, name != "cancelled", errors.As(err, &timeout) && timeout.Timeout(), name)
			resp.Body.Close()
			cancel()
		}
		require.LessOrEqual(t, hits.Load(), int32(3), "no answer that has begun is asked for again")
	})
}

// The end of the time before an answer is net/http's to tell: its clients ask for Timeout.
func TestPass_endBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		var onArrival atomic.Pointer[context.CancelFunc]
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			drain(r)
			if cancel := onArrival.Load(); cancel != nil {
				(*cancel)()
			}
			outlastQuietly(w, r)
		})
		for _, mode := range []string{"ctx", "client", "cancel"} {
			ctx, cancel := context.WithCancel(t.Context())
			client := through(t, cfg)
			switch mode {
			case "ctx":
				ctx, cancel = context.WithTimeout(t.Context(), 50*ms)
			case "client":
				client.Timeout = 50 * ms
			case "cancel":
				onArrival.Store(&cancel)
			}
			_, err := client.Do(unkeyed(t, ctx, http.MethodPost, srv.URL, "body")) //nolint:bodyclose // there is none
			cancel()
			var failed *url.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, mode != "cancel", failed.Timeout(), mode)
			require.Equal(t, mode != "cancel", errors.Is(err, context.DeadlineExceeded), mode)
			require.Equal(t, mode == "cancel", errors.Is(err, context.Canceled), mode)
		}
	})
}

func outlastQuietly(_ http.ResponseWriter, r *http.Request) {
	drain(r)
	<-r.Context().Done()
	panic(http.ErrAbortHandler) // else an answer might come in the last moment
}

// http.Client follows redirects, with bodies that it opens anew, and keeps cookies.
func TestPass_redirectsAndCookies(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		var mu sync.Mutex
		var log []string
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			cookie, _ := r.Cookie("seen")
			mu.Lock()
			log = append(log, fmt.Sprintf("%s %s %q cookie=%t", r.Method, r.URL.Path, body, cookie != nil))
			mu.Unlock()
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1", Path: "/"})
			switch r.URL.Path {
			case "/307":
				http.Redirect(w, r, "/303", http.StatusTemporaryRedirect)
			case "/303":
				http.Redirect(w, r, "/end", http.StatusSeeOther)
			}
		})
		client := through(t, cfg)
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		client.Jar = jar
		resp, err := client.Do(unkeyed(t, t.Context(), http.MethodPost, srv.URL+"/307", "body"))
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, []string{
			`POST /307 "body" cookie=false`, `POST /303 "body" cookie=true`, `GET /end "" cookie=true`,
		}, log)
		require.Equal(t, "/end", resp.Request.URL.Path)
		require.Equal(t, "/303", resp.Request.Response.Request.URL.Path)
	})
}

// The shapes of answers are net/http's: HEAD and its length, no content, zipped, too short.
func TestPass_answers(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		var hits atomic.Int32
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			hits.Add(1)
			switch r.URL.Path {
			case "/long":
				w.Header().Set("Content-Length", "42")
				if r.Method != http.MethodHead {
					io.WriteString(w, strings.Repeat("x", 42))
				}
			case "/204":
				w.WriteHeader(http.StatusNoContent)
			case "/304":
				w.Header().Set("ETag", `"a"`)
				w.WriteHeader(http.StatusNotModified)
			case "/zip":
				w.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
				z := gzip.NewWriter(w)
				io.WriteString(z, "zipped")
				z.Close()
			case "/short":
				w.Header().Set("Content-Length", "42")
				io.WriteString(w, "short")
			}
		})
		client := through(t, cfg)
		for _, tt := range []struct {
			method, path, body string
			status             int
			length             int64
			err                error
		}{
			{http.MethodHead, "/long", "", 200, 42, nil},
			{http.MethodGet, "/long", strings.Repeat("x", 42), 200, 42, nil},
			{http.MethodGet, "/204", "", 204, 0, nil},
			{http.MethodGet, "/304", "", 304, 0, nil},
			{http.MethodGet, "/zip", "zipped", 200, -1, nil},
			{http.MethodGet, "/short", "short", 200, 42, io.ErrUnexpectedEOF},
		} {
			before := hits.Load()
			resp, err := client.Do(unkeyed(t, t.Context(), tt.method, srv.URL+tt.path, ""))
			require.NoError(t, err, tt.path)
			body, err := io.ReadAll(resp.Body)
			require.ErrorIs(t, err, tt.err, tt.path)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, tt.body, string(body), tt.path)
			require.Equal(t, tt.status, resp.StatusCode)
			if tt.status != 304 {
				require.Equal(t, tt.length, resp.ContentLength, tt.path)
			}
			require.Equal(t, tt.path == "/zip", resp.Uncompressed)
			require.EqualValues(t, 1, hits.Load()-before, tt.path)
		}
	})
}

// One goroutine may close a body that another one reads.
func TestPass_closeWhileReading(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		for range 5 {
			resp, err := through(t, cfg).Get(srv.URL)
			require.NoError(t, err)
			read := make(chan error, 1)
			go func() { _, err := resp.Body.Read(make([]byte, 1)); read <- err }()
			require.NoError(t, resp.Body.Close())
			require.Error(t, <-read)
			_, err = resp.Body.Read(make([]byte, 1))
			require.Error(t, err, "a read after Close")
		}
	})
}

// The request's body is closed however the call ends.
func TestPass_requestBodyIsClosed(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		var onArrival atomic.Pointer[context.CancelFunc]
		srv, cfg := serve(t, p, func(_ http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/unread":
			case "/lost":
				cut(r)
			case "/hang":
				drain(r)
				(*onArrival.Load())()
				outlastQuietly(nil, r)
			default:
				drain(r)
			}
		})
		dead := nobody(t)
		for _, target := range []string{srv.URL + "/", srv.URL + "/unread", srv.URL + "/lost", srv.URL + "/hang", dead} {
			ctx, cancel := context.WithCancel(t.Context())
			if strings.HasSuffix(target, "/hang") {
				onArrival.Store(&cancel)
			}
			var closed atomic.Int32
			body := closeCounter{strings.NewReader(strings.Repeat("body ", 1<<12)), &closed}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, body)
			require.NoError(t, err)
			passed(newClient(t, cfg), req)
			require.Eventually(t, func() bool { return closed.Load() > 0 }, 10*time.Second, time.Millisecond, target)
			cancel()
		}
	})
}

// CONNECT opens a tunnel, as with net/http.
func TestPass_connect(t *testing.T) {
	t.Parallel()
	srv, cfg := serve(t, plain, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.RequestURI != "there.test:443" {
			t.Errorf("got %s %s", r.Method, r.RequestURI)
		}
	})
	u, err := url.Parse(srv.URL)
	require.NoError(t, err)
	u.Opaque = "there.test:443"
	code, err := passed(newClient(t, cfg), &http.Request{Method: http.MethodConnect, URL: u, Header: http.Header{}})
	require.NoError(t, err)
	require.Equal(t, 200, code)
}
