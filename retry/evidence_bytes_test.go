package retry_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

// newTransport returns a transport of the package that trusts the server of srv.
func newTransport(t *testing.T, srv *httptest.Server) *http.Transport {
	t.Helper()
	tr := retry.NewTransport()
	if theirs, _ := srv.Client().Transport.(*http.Transport); theirs.TLSClientConfig != nil {
		tr.TLSClientConfig = &tls.Config{RootCAs: theirs.TLSClientConfig.RootCAs}
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// bottom returns the connection below TLS.
func bottom(conn net.Conn) net.Conn {
	if over, ok := conn.(*tls.Conn); ok {
		return over.NetConn()
	}
	return conn
}

// The ways in which a kept connection is found dead by the first write to it.
var deaths = []struct {
	name string
	die  func(net.Conn)
}{
	{"closed", func(c net.Conn) { c.Close() }}, // with an alert, over TLS
	{"its socket refuses to write", func(c net.Conn) {
		if half, ok := bottom(c).(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			panic("not half closed")
		}
	}},
}

// dying returns ctx, in which the first so many connections that a request gets, and that
// were used before, die before it is written.
func dying(ctx context.Context, times int32, die func(net.Conn)) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if info.Reused && times > 0 {
			times--
			die(info.Conn)
		}
	}})
}

// A kept connection may be dead before a byte of the request was written. That does not
// count as a delivery. net/http takes another connection, or the call is NotSent.
func TestSend_staleConnectionIsNoDelivery(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		change        func(*retry.Call)
		callerRetries bool
	}{
		{"one attempt", func(*retry.Call) {}, false},
		{"the caller retries", func(*retry.Call) {}, true},
		{"without a body", func(c *retry.Call) { c.Body = nil }, false},
		{"a body that no buffer holds", func(c *retry.Call) { c.Body = make([]byte, 64<<10) }, false},
		{"without a key", func(c *retry.Call) { c.Key = childkey.Key{} }, false},
	}
	for _, tt := range tests {
		for _, death := range deaths {
			t.Run(tt.name+", "+death.name, func(t *testing.T) {
				t.Parallel()
				for _, p := range []protocol{plain, secure} {
					var hits atomic.Int32
					srv, _ := serve(t, p, func(_ http.ResponseWriter, r *http.Request) { drain(r); hits.Add(1) })
					cfg, events := over(newTransport(t, srv)), &recorder{}
					cfg.MaxAttempts, cfg.Observer = 1, events
					c, ctx := newClient(t, cfg), t.Context()
					call := post(srv.URL)
					tt.change(&call)
					if tt.callerRetries {
						ctx = callerRetries(ctx)
					}
					_, err := c.Send(ctx, call)
					require.NoError(t, err)
					resp, err := c.Send(dying(ctx, 1, death.die), call)
					require.Equal(t, 1, events.attempts[1].Deliveries)
					if err != nil { // net/http does not find every such connection worth another
						require.ErrorIs(t, err, retry.ErrNotSent)
						require.EqualValues(t, 1, hits.Load())
						continue
					}
					require.Equal(t, 1, resp.Attempts)
					require.EqualValues(t, 2, hits.Load())
				}
			})
		}
	}
}

// A call whose every connection was dead before a byte was written is NotSent.
func TestSend_staleConnectionIsNotSent(t *testing.T) {
	t.Parallel()
	for _, death := range deaths {
		t.Run(death.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range []protocol{plain, secure} {
				srv, _ := serve(t, p, func(_ http.ResponseWriter, r *http.Request) { drain(r) })
				cfg := over(newTransport(t, srv))
				cfg.MaxAttempts = 1
				c := newClient(t, cfg)
				_, err := c.Send(t.Context(), post(srv.URL))
				require.NoError(t, err)
				srv.Listener.Close() // there will be no other connection
				failed := failureContext(t, dying(t.Context(), 1, death.die), c, post(srv.URL))
				require.Equal(t, retry.NotSent, failed.Outcome, "%v", failed)
				require.True(t, failed.Retryable)
			}
		})
	}
}

// A new connection that breaks before a byte was written: net/http does not repeat the
// request, and the client does, though it has no key.
func TestSend_newConnectionThatBreaks(t *testing.T) {
	t.Parallel()
	for _, p := range []protocol{plain, secure} {
		var hits atomic.Int32
		srv, _ := serve(t, p, func(_ http.ResponseWriter, r *http.Request) { drain(r); hits.Add(1) })
		broken := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
			if broken++; broken == 1 {
				info.Conn.Close()
			}
		}})
		events := &recorder{}
		cfg := over(newTransport(t, srv))
		cfg.Observer = events
		call := post(srv.URL)
		call.Key = childkey.Key{}
		resp, err := newClient(t, cfg).Send(ctx, call)
		require.NoError(t, err)
		require.Equal(t, 2, resp.Attempts)
		require.Equal(t, retry.NotSent, events.attempts[0].Outcome)
		require.EqualValues(t, 1, hits.Load())
	}
}

// Whatever reached the server was sent, if the connection is new or was kept, and if the
// server read all of it or the first byte.
func TestSend_writtenIsUnknown(t *testing.T) {
	t.Parallel()
	for _, p := range []protocol{plain, secure} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			for _, kept := range []bool{false, true} {
				var seen atomic.Int32
				srv, _ := serve(t, p, func(_ http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/warm" {
						return
					}
					seen.Add(1)
					cut(r)
				})
				cfg := over(newTransport(t, srv))
				cfg.MaxAttempts = 1
				c := newClient(t, cfg)
				if kept {
					_, err := c.Send(t.Context(), post(srv.URL+"/warm"))
					require.NoError(t, err)
				}
				call := post(srv.URL)
				call.Key = childkey.Key{} // else net/http repeats it
				failed := failure(t, c, call)
				require.Equal(t, retry.Unknown, failed.Outcome, "%v", failed)
				require.EqualValues(t, 1, seen.Load())
			}
		})
	}
	t.Run("the first byte", func(t *testing.T) {
		t.Parallel()
		read := make(chan error, 1)
		url := raw(t, func(conn net.Conn) {
			_, err := io.ReadFull(conn, make([]byte, 1))
			read <- err
			reset(conn)
		})
		tr := retry.NewTransport()
		t.Cleanup(tr.CloseIdleConnections)
		cfg := over(tr)
		cfg.MaxAttempts = 1
		failed := failure(t, newClient(t, cfg), post(url))
		require.NoError(t, <-read)
		require.Equal(t, retry.Unknown, failed.Outcome, "%v", failed)
	})
}

// Connections that a server closes after each answer, and callers that leave at any moment:
// no call that arrived, in part or whole, is NotSent.
func TestSend_notSentNeverArrived(t *testing.T) {
	t.Parallel()
	for _, p := range []protocol{plain, secure} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			arrived := map[string]bool{}
			url, theirs := speak(t, p, func(conn net.Conn) {
				defer conn.Close()
				line, _ := bufio.NewReader(conn).ReadString('\n')
				mu.Lock()
				arrived[strings.TrimSpace(line)] = true
				mu.Unlock()
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			})
			tr := retry.NewTransport()
			t.Cleanup(tr.CloseIdleConnections)
			tr.TLSClientConfig, tr.ForceAttemptHTTP2 = theirs.TLSClientConfig.Clone(), false
			cfg := over(tr)
			cfg.MaxAttempts = 1
			c := newClient(t, cfg)
			notSent := make(chan string, 200)
			var all sync.WaitGroup
			for caller := range 4 {
				all.Go(func() {
					for i := range 50 {
						path := "/" + string(rune('a'+caller)) + "/" + strings.Repeat("x", i+1)
						call := post(url + path)
						call.Key = childkey.Key{}
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%10+1)*200*time.Microsecond)
						_, err := c.Send(ctx, call)
						cancel()
						if errors.Is(err, retry.ErrNotSent) {
							notSent <- "POST " + path + " HTTP/1.1"
						}
					}
				})
			}
			all.Wait()
			close(notSent)
			mu.Lock()
			defer mu.Unlock()
			for line := range notSent {
				require.False(t, arrived[line], "%q arrived", line)
			}
		})
	}
}

// A greeted reads the byte with which each connection begins.
type greeted struct{ net.Listener }

func (l greeted) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	return conn, err
}

// greet has the transport write a byte to each connection first, as one that tells a proxy
// where to.
func greet(tr *http.Transport) {
	dial := tr.DialContext
	tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			_, err = conn.Write([]byte{5})
		}
		return conn, err
	}
}

// A request that ends unwritten on a connection of HTTP/2 leaves the connection to the
// others.
func TestSend_sharedConnectionIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"encrypted", "plain", "plain, through a proxy"} {
		encrypted := kind == "encrypted"
		begun, free := make(chan struct{}), make(chan struct{})
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if drain(r); r.URL.Path == "/long" {
				close(begun)
				<-free
			}
		}))
		srv.EnableHTTP2, srv.Config.ErrorLog = true, discardLog
		proxied := kind == "plain, through a proxy"
		if proxied {
			srv.Listener = greeted{srv.Listener}
		}
		var protocols http.Protocols
		protocols.SetHTTP2(encrypted)
		protocols.SetUnencryptedHTTP2(!encrypted)
		if srv.Config.Protocols = &protocols; encrypted {
			srv.StartTLS()
		} else {
			srv.Start()
		}
		t.Cleanup(srv.Close)
		tr := newTransport(t, srv)
		if tr.Protocols = &protocols; proxied {
			greet(tr)
		}
		cfg := over(tr)
		cfg.MaxAttempts = 1
		c := newClient(t, cfg)
		var resp *retry.Response
		var err error
		var long sync.WaitGroup
		long.Go(func() { resp, err = c.Send(t.Context(), post(srv.URL+"/long")) })
		<-begun
		for range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { cancel() }})
			failure := failureContext(t, ctx, c, post(srv.URL))
			require.ErrorIs(t, failure, context.Canceled, kind)
		}
		close(free)
		long.Wait()
		require.NoError(t, err, kind)
		require.Equal(t, http.StatusOK, resp.Status)
	}
}

// A closed connection sends no byte.
func TestNewTransport_closedConnection(t *testing.T) {
	t.Parallel()
	arrived := make(chan int, 1)
	url := raw(t, func(conn net.Conn) {
		n, _ := conn.Read(make([]byte, 1))
		arrived <- n
	})
	conn, err := retry.NewTransport().DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	_, err = conn.Write([]byte("POST"))
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, conn.Close(), net.ErrClosed)
	require.Zero(t, <-arrived)
}

// A file is sent over a connection of ours as over any other.
func TestNewTransport_sendsFiles(t *testing.T) {
	t.Parallel()
	want := strings.Repeat("file", 1<<16)
	var got []byte
	srv, _ := serve(t, plain, func(_ http.ResponseWriter, r *http.Request) { got, _ = io.ReadAll(r.Body) })
	name := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(name, []byte(want), 0o600))
	file, err := os.Open(name)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, file)
	require.NoError(t, err)
	req.ContentLength = int64(len(want))
	resp, err := newTransport(t, srv).RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.True(t, want == string(got), "%d bytes arrived", len(got))
}

// A lateTransport gives up on a request and leaves a connection of the package behind, to
// which the request was or will be written: late says how.
type lateTransport struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	conn net.Conn
	late func(net.Conn)
}

func (l *lateTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	trace.GetConn(req.URL.Host)
	conn, err := l.dial(req.Context(), "tcp", req.URL.Host)
	if err != nil {
		return nil, err
	}
	l.conn = conn
	trace.GotConn(httptrace.GotConnInfo{Conn: conn})
	l.late(conn)
	return nil, errBroken
}

// A call that was NotSent does not reach the server, even if the transport goes on. A write
// that is running, or that ended half way, may have reached it.
func TestSend_transportThatGoesOn(t *testing.T) {
	t.Parallel()
	large := make([]byte, 64<<20) // more than sockets hold
	var writers sync.WaitGroup
	tests := []struct {
		name string
		late func(net.Conn)
		want retry.Outcome
	}{
		{"nothing was written", func(net.Conn) {}, retry.NotSent},
		{"a byte was written", func(conn net.Conn) { conn.Write(large[:1]) }, retry.Unknown},
		{"a byte was copied", func(conn net.Conn) {
			io.Copy(conn, io.LimitReader(bytes.NewReader(large), 1))
		}, retry.Unknown},
		{"part of it was written", func(conn net.Conn) {
			conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			conn.Write(large)
		}, retry.Unknown},
		{"it is being written", func(conn net.Conn) {
			writers.Go(func() { conn.Write(large) })
			for read := 0; read == 0; { // the handler has a byte when the write has begun
				read, _ = conn.Read(make([]byte, 1))
			}
		}, retry.Unknown},
		{"it is being copied", func(conn net.Conn) {
			writers.Go(func() { io.Copy(conn, io.LimitReader(bytes.NewReader(large), 64<<20)) })
			for read := 0; read == 0; {
				read, _ = conn.Read(make([]byte, 1))
			}
		}, retry.Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan int, 1)
			url := raw(t, func(conn net.Conn) {
				n, _ := conn.Read(make([]byte, 1))
				arrived <- n
				conn.Write([]byte("!"))
			})
			transport := &lateTransport{dial: retry.NewTransport().DialContext, late: tt.late}
			cfg := over(transport)
			cfg.MaxAttempts = 1
			failed := failure(t, newClient(t, cfg), post(url))
			require.Equal(t, tt.want, failed.Outcome, "%v", failed)
			if tt.want == retry.NotSent {
				_, err := transport.conn.Write(large[:1])
				require.ErrorIs(t, err, net.ErrClosed)
				_, err = io.Copy(transport.conn, io.LimitReader(bytes.NewReader(large), 1))
				require.ErrorIs(t, err, net.ErrClosed)
			}
			transport.conn.Close()
			require.Equal(t, tt.want == retry.Unknown, <-arrived > 0)
		})
	}
	t.Cleanup(writers.Wait)
}
