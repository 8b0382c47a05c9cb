package retry_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// through returns an http.Client over the round tripper of a client with cfg.
func through(t *testing.T, cfg retry.Config) *http.Client {
	t.Helper()
	return &http.Client{Transport: newClient(t, cfg).RoundTripper()}
}

// An event arrives when it is sent, for as long as the caller listens.
func TestPass_eventStream(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		next, gone := make(chan string), make(chan struct{})
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			defer close(gone)
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			for {
				select {
				case event := <-next:
					fmt.Fprintf(w, "data: %s\n\n", event)
					w.(http.Flusher).Flush()
				case <-r.Context().Done():
					return
				}
			}
		})
		cfg.Transport = newTransport(t, srv)
		cfg.Timeout, cfg.AttemptTimeout = 60*ms, 20*ms // none of them ends a stream
		resp, err := through(t, cfg).Get(srv.URL)
		require.NoError(t, err)
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		soonest := time.Hour // of all events: a busy machine delays some of them
		for i := range 20 {
			start := time.Now()
			next <- fmt.Sprint(i)
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("data: %d\n", i), line)
			soonest = min(soonest, time.Since(start))
			_, err = lines.ReadString('\n')
			require.NoError(t, err)
			time.Sleep(5 * ms) // so that the stream outlasts all timeouts
		}
		require.Less(t, soonest, 100*ms)
		require.NoError(t, resp.Body.Close())
		<-gone // the service hears that nobody listens any more
	})
}

// A gibibyte passes through memory that does not grow. Over HTTP/2 it is less, because that
// takes long under the race detector. Not parallel: it measures the heap of the process.
func TestPass_download(t *testing.T) {
	const chunk = 1 << 20
	for _, tt := range []struct {
		protocol protocol
		size     int64
	}{{plain, 1 << 30}, {http2, 1 << 26}} {
		t.Run(string(tt.protocol), func(t *testing.T) {
			srv, cfg := serve(t, tt.protocol, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(tt.size))
				for buf := make([]byte, chunk); ; {
					if _, err := w.Write(buf); err != nil {
						return // http.ErrContentLength at the end
					}
				}
			})
			cfg.Transport, cfg.MaxResponseBytes = newTransport(t, srv), 1<<10
			client := through(t, cfg)
			before := liveHeap()
			resp, err := client.Get(srv.URL)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, tt.size, resp.ContentLength)
			var n int64
			for buf, step := make([]byte, chunk), tt.size/8; n < tt.size; {
				read, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(resp.Body, step), buf)
				require.NoError(t, err)
				require.Equal(t, step, read)
				n += read
				require.Less(t, liveHeap(), before+16*chunk, "after %d bytes", n)
			}
			_, err = resp.Body.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err)
		})
	}
}

// liveHeap returns how many bytes of the heap are in use after a collection.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A body of unknown length is sent while it is written, and echoed while it is sent.
func TestPass_bothWaysAtOnce(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex() // HTTP/2 always is
			if r.ContentLength != -1 {
				t.Errorf("Content-Length = %d, want none", r.ContentLength)
			}
			w.(http.Flusher).Flush()
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				fmt.Fprintln(w, lines.Text())
				w.(http.Flusher).Flush()
			}
		})
		cfg.Transport = newTransport(t, srv)
		body, out := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, body)
		require.NoError(t, err)
		resp, err := through(t, cfg).Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		in := bufio.NewReader(resp.Body)
		for i := range 10 {
			fmt.Fprintln(out, i)
			line, err := in.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintln(i), line)
		}
		require.NoError(t, out.Close())
		_, err = in.ReadByte()
		require.Equal(t, io.EOF, err)
	})
}

// The body of an answer that switches protocols is the connection.
func TestPass_upgrade(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) { // HTTP/2 has no upgrades, so net/http asks for HTTP/1.1
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != "websocket" {
				t.Error("no Upgrade")
			}
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.Copy(conn, rw)
		})
		for _, tr := range []http.RoundTripper{cfg.Transport, newTransport(t, srv)} {
			cfg.Transport = tr
			req := unkeyed(t, t.Context(), http.MethodGet, srv.URL, "")
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "websocket")
			resp, err := through(t, cfg).Do(req)
			require.NoError(t, err)
			require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
			conn, ok := resp.Body.(io.ReadWriteCloser)
			require.True(t, ok, "%T", resp.Body)
			for _, frame := range []string{"ping", "pong"} {
				_, err = io.WriteString(conn, frame)
				require.NoError(t, err)
				got := make([]byte, len(frame))
				_, err = io.ReadFull(conn, got)
				require.NoError(t, err)
				require.Equal(t, frame, string(got))
			}
			require.NoError(t, conn.Close())
		}
	})
}

// Trailers arrive after the bodies, whichever side sends them.
func TestPass_trailers(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Declared")
			body, _ := io.ReadAll(r.Body)
			w.Write(body)
			w.Header().Set("X-Declared", r.Trailer.Get("X-Sum"))
			w.Header().Set(http.TrailerPrefix+"X-Undeclared", "2")
		})
		body, out := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, body)
		require.NoError(t, err)
		req.Trailer = http.Header{"X-Sum": nil}
		go func() {
			io.WriteString(out, "body")
			req.Trailer.Set("X-Sum", "1") // known once the body is
			out.Close()
		}()
		resp, err := through(t, cfg).Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Contains(t, resp.Trailer, "X-Declared")
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "body", string(got))
		require.Equal(t, http.Header{"X-Declared": {"1"}, "X-Undeclared": {"2"}}, resp.Trailer)
	})
}

// A service that expects the body gets it, and one that refuses the header never does.
func TestPass_expectContinue(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{true, false} {
		srv, _ := serve(t, plain, func(w http.ResponseWriter, r *http.Request) {
			if wanted {
				io.Copy(w, r.Body)
				return
			}
			w.WriteHeader(http.StatusExpectationFailed)
		})
		tr := ownTransport(t)
		tr.ExpectContinueTimeout = time.Hour
		var mu sync.Mutex
		var read bool
		body := io.NopCloser(readerFunc(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			if read {
				return 0, io.EOF
			}
			read = true
			return copy(b, "body"), nil
		}))
		var interim []int
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			interim = append(interim, code)
			return nil
		}})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, body)
		require.NoError(t, err)
		req.Header.Set("Expect", "100-continue")
		resp, err := through(t, over(tr)).Do(req)
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, wanted, read)
		if wanted {
			require.Equal(t, "body", string(got))
			require.Equal(t, []int{100}, interim)
		} else {
			require.Equal(t, http.StatusExpectationFailed, resp.StatusCode)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Hints come before the answer does.
func TestPass_earlyHints(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		hinted := make(chan struct{})
		srv, cfg := serve(t, p, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(http.StatusEarlyHints)
			<-hinted
			w.WriteHeader(http.StatusOK)
		})
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code != http.StatusEarlyHints || h.Get("Link") == "" {
				t.Errorf("got %d, %v", code, h)
			}
			close(hinted)
			return nil
		}})
		code, err := passed(newClient(t, cfg), unkeyed(t, ctx, http.MethodGet, srv.URL, ""))
		require.NoError(t, err)
		require.Equal(t, 200, code)
	})
}

// A proxy passes requests on through the client, with bodies of both sides in motion.
func TestPass_reverseProxy(t *testing.T) {
	t.Parallel()
	srv, cfg := serve(t, plain, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
		w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
	})
	proxy := reverseProxy(t, srv.URL, newClient(t, cfg).RoundTripper())
	front, frontCfg := serve(t, plain, proxy.ServeHTTP)
	body := strings.Repeat("body ", 1<<18)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL, io.NopCloser(strings.NewReader(body)))
	require.NoError(t, err)
	resp, err := (&http.Client{Transport: frontCfg.Transport}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, body, string(got))
	require.Equal(t, "1", resp.Trailer.Get("X-Sum"))
}

// A call that passed leaves no goroutine, however it ended. Not parallel: it counts the
// goroutines of the process.
func TestPass_leavesNothing(t *testing.T) {
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			before := runtime.NumGoroutine()
			leavesNothing(t, p)
			// One more is Eventually's own.
			require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 10*time.Millisecond,
				"goroutines left: %s", stacks())
		})
	}
}

func leavesNothing(t *testing.T, p protocol) {
	srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/stream":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/busy":
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, strings.Repeat("later ", 1<<14))
		case "/lost":
			cut(r)
		default:
			io.Copy(w, r.Body)
		}
	})
	defer srv.Close()
	cfg.Transport = newTransport(t, srv)
	client := through(t, cfg)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, path := range []string{"/", "/stream", "/busy", "/lost"} {
			ctx, cancel := context.WithCancel(t.Context())
			resp, err := client.Do(unkeyed(t, ctx, method, srv.URL+path, "body"))
			if path == "/lost" {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				if method == http.MethodGet {
					resp.Body.Close() // and read nothing
				} else {
					cancel() // and close nothing
					io.Copy(io.Discard, resp.Body)
				}
			}
			cancel()
		}
	}
	client.CloseIdleConnections()
}

// A connection that the service has closed meanwhile costs a safe request nothing.
func TestPass_lostConnection(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method string
		want   int
	}{{http.MethodGet, 3}, {http.MethodPost, 1}} {
		var n atomic.Int32
		url := raw(t, func(conn net.Conn) {
			readRequest(conn)
			if n.Add(1) < 3 {
				conn.Close()
				return
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		})
		_, err := passed(newClient(t, over(ownTransport(t))), unkeyed(t, t.Context(), tt.method, url, "body"))
		require.Equal(t, tt.method == http.MethodGet, err == nil, err)
		require.EqualValues(t, tt.want, n.Load())
	}
}

// A request that was written to no connection is NotSent, and is repeated though its method
// may have an effect.
func TestPass_staleConnection(t *testing.T) {
	t.Parallel()
	for _, death := range deaths {
		for _, p := range []protocol{plain, secure} {
			var hits atomic.Int32
			srv, _ := serve(t, p, func(_ http.ResponseWriter, r *http.Request) { drain(r); hits.Add(1) })
			client := newClient(t, over(newTransport(t, srv)))
			_, err := passed(client, unkeyed(t, t.Context(), http.MethodPost, srv.URL, "body"))
			require.NoError(t, err)
			_, err = passed(client, unkeyed(t, dying(t.Context(), 1, death.die), http.MethodPost, srv.URL, "body"))
			require.NoError(t, err)
			require.EqualValues(t, 2, hits.Load())
			srv.Listener.Close() // there will be no other connection
			_, err = passed(client, unkeyed(t, dying(t.Context(), 1, death.die), http.MethodPost, srv.URL, "body"))
			require.ErrorIs(t, err, retry.ErrNotSent)
		}
	}
}
