package retry_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// attempts2 returns cfg with two attempts and, if it is not 0, an attempt timeout.
func attempts2(cfg retry.Config, timeout time.Duration) retry.Config {
	cfg.MaxAttempts, cfg.AttemptTimeout = 2, timeout
	return cfg
}

// raw serves loopback connections with handle; those that it leaves open are
// closed when the test ends.
func raw(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var accepting, serving sync.WaitGroup
	var conns []net.Conn
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
			serving.Go(func() { handle(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		accepting.Wait()
		for _, conn := range conns {
			conn.Close()
		}
		serving.Wait()
	})
	return "http://" + listener.Addr().String()
}

// ownTransport is a transport without idle connections to leave behind.
func ownTransport(t *testing.T) *http.Transport {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

func readRequest(conn net.Conn) {
	if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		io.Copy(io.Discard, req.Body)
	}
}

func TestSend_nothingSent(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listener.Close()
		failed := failure(t, newClient(t, attempts2(over(ownTransport(t)), 0)), post("http://"+listener.Addr().String()))
		require.Equal(t, retry.NotSent, failed.Outcome)
		require.Equal(t, 2, failed.Attempts)
		require.True(t, failed.Retryable)
	})
	t.Run("no such host", func(t *testing.T) {
		t.Parallel()
		tr := ownTransport(t)
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}}
		}
		failed := failure(t, newClient(t, over(tr)), post("http://nowhere.invalid"))
		require.Equal(t, retry.NotSent, failed.Outcome)
		require.Equal(t, 1, failed.Attempts)
	})
	t.Run("DNS timeout", func(t *testing.T) {
		t.Parallel()
		tr := ownTransport(t)
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "i/o timeout", Name: "x", IsTimeout: true}}
		}
		failed := failure(t, newClient(t, attempts2(over(tr), 0)), post("http://nowhere.invalid"))
		require.Equal(t, retry.NotSent, failed.Outcome)
		require.Equal(t, 2, failed.Attempts)
	})
	t.Run("untrusted certificate", func(t *testing.T) {
		t.Parallel()
		srv := quietTLS(t, nil)
		failed := failure(t, newClient(t, over(ownTransport(t))), post(srv.URL))
		require.Equal(t, retry.NotSent, failed.Outcome)
		require.Equal(t, 1, failed.Attempts)
		var untrusted *tls.CertificateVerificationError
		require.ErrorAs(t, failed, &untrusted)
	})
	t.Run("no common TLS version", func(t *testing.T) {
		t.Parallel()
		srv := quietTLS(t, &tls.Config{MaxVersion: tls.VersionTLS12})
		tr := ownTransport(t)
		tr.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool(srv)}
		failed := failure(t, newClient(t, over(tr)), post(srv.URL))
		require.Equal(t, retry.NotSent, failed.Outcome)
		require.Equal(t, 1, failed.Attempts)
	})
	t.Run("handshake reset", func(t *testing.T) {
		t.Parallel()
		url := raw(t, reset)
		failed := failure(t, newClient(t, attempts2(over(ownTransport(t)), 0)), post("https"+url[len("http"):]))
		require.Equal(t, retry.NotSent, failed.Outcome)
		require.Equal(t, 2, failed.Attempts)
	})
	t.Run("plain HTTP behind https", func(t *testing.T) {
		t.Parallel()
		srv, cfg := serve(t, false, func(http.ResponseWriter, *http.Request) {})
		failed := failure(t, newClient(t, cfg), post("https"+srv.URL[len("http"):]))
		require.Equal(t, retry.NotSent, failed.Outcome)
		require.Equal(t, 1, failed.Attempts)
	})
	t.Run("no connection free", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, queuedForConnection)
	})
}

// quietTLS is a TLS server that does not log the handshakes that fail.
func quietTLS(t *testing.T, cfg *tls.Config) *httptest.Server {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.TLS = cfg
	srv.Config.ErrorLog = discardLog
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

func pool(srv *httptest.Server) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(srv.Certificate())
	return p
}

// queuedForConnection: the only connection is taken; the second call never gets one.
func queuedForConnection(t *testing.T) {
	busy, free := make(chan struct{}), make(chan struct{})
	tr, stop := pipeServer(false, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(busy)
		<-free
	})
	defer stop()
	tr.MaxConnsPerHost = 1
	first := make(chan error, 1)
	go func() {
		_, err := newClient(t, over(tr)).Send(context.Background(), post(stubURL))
		first <- err
	}()
	<-busy
	failed := failure(t, newClient(t, attempts2(over(tr), 2*time.Second)), post(stubURL))
	close(free)
	require.NoError(t, <-first)
	require.Equal(t, retry.NotSent, failed.Outcome)
	require.Equal(t, 2, failed.Attempts)
	require.ErrorIs(t, failed, retry.ErrAttemptTimeout)
}

func TestSend_maybeSent(t *testing.T) {
	t.Parallel()
	t.Run("reset after the write", func(t *testing.T) {
		t.Parallel()
		url := raw(t, func(conn net.Conn) { readRequest(conn); reset(conn) })
		failed := failure(t, newClient(t, attempts2(over(ownTransport(t)), 0)), post(url))
		require.Equal(t, retry.Unknown, failed.Outcome)
		require.Equal(t, 2, failed.Attempts)
	})
	t.Run("closed before an answer", func(t *testing.T) {
		t.Parallel()
		url := raw(t, func(conn net.Conn) { readRequest(conn); conn.Close() })
		failed := failure(t, newClient(t, attempts2(over(ownTransport(t)), 0)), post(url))
		require.Equal(t, retry.Unknown, failed.Outcome)
		require.ErrorIs(t, failed, io.EOF)
	})
	for _, h2 := range []bool{false, true} {
		t.Run("attempt timeout", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tr, stop := pipeServer(h2, func(_ http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
				})
				defer stop()
				failed := failure(t, newClient(t, attempts2(over(tr), 2*time.Second)), post(stubURL))
				require.Equal(t, retry.Unknown, failed.Outcome)
				require.ErrorIs(t, failed, retry.ErrAttemptTimeout)
				require.Equal(t, 2, failed.Attempts)
			})
		})
		t.Run("caller cancels", func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			srv, cfg := serve(t, h2, func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				cancel()
				<-r.Context().Done()
			})
			failed := failureContext(t, ctx, newClient(t, cfg), post(srv.URL))
			require.Equal(t, retry.Unknown, failed.Outcome)
			require.ErrorIs(t, failed, context.Canceled)
			require.Equal(t, 1, failed.Attempts)
			require.True(t, failed.Retryable)
		})
		t.Run("aborted", func(t *testing.T) {
			t.Parallel()
			srv, cfg := serve(t, h2, func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler)
			})
			failed := failure(t, newClient(t, attempts2(cfg, 0)), post(srv.URL))
			require.Equal(t, retry.Unknown, failed.Outcome)
		})
	}
}

// A transport that ignores httptrace proves nothing by its silence.
func TestSend_untracedTransportIsNotTrusted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		err      error
		want     retry.Outcome
		attempts int
	}{
		{"any error", errBroken, retry.Unknown, 4},
		{"dial", errDial, retry.NotSent, 4},
		{"no such host", &net.DNSError{IsNotFound: true}, retry.NotSent, 1},
		{"unknown authority", x509.UnknownAuthorityError{}, retry.NotSent, 1},
		{"wrapped", errors.Join(errBroken, &tls.CertificateVerificationError{Err: errBroken}), retry.NotSent, 1},
		{"deadline", context.DeadlineExceeded, retry.Unknown, 4},
		{"cancelled though nobody did", context.Canceled, retry.Unknown, 4},
		{"EOF", io.ErrUnexpectedEOF, retry.Unknown, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			failed := failure(t, newClient(t, over(script(fails(tt.err)))), post(stubURL))
			require.Equal(t, tt.want, failed.Outcome)
			require.Equal(t, tt.attempts, failed.Attempts)
			require.ErrorIs(t, failed, tt.err)
		})
	}
}

func TestSend_transportBreaksItsContract(t *testing.T) {
	t.Parallel()
	t.Run("nil and nil", func(t *testing.T) {
		t.Parallel()
		rt := script(func(*http.Request) (*http.Response, error) { return nil, nil })
		failed := failure(t, newClient(t, over(rt)), post(stubURL))
		require.Equal(t, retry.Unknown, failed.Outcome)
		require.Equal(t, 4, rt.count())
	})
	t.Run("response and error", func(t *testing.T) {
		t.Parallel()
		var closed atomic.Int32
		rt := script(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: closeCounter{http.NoBody, &closed}}, errBroken
		})
		failed := failure(t, newClient(t, over(rt)), post(stubURL))
		require.Equal(t, retry.Unknown, failed.Outcome)
		require.EqualValues(t, 4, closed.Load())
	})
	t.Run("nil body", func(t *testing.T) {
		t.Parallel()
		rt := script(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNoContent}, nil
		})
		resp, err := newClient(t, over(rt)).Send(t.Context(), post(stubURL))
		require.NoError(t, err)
		require.Empty(t, resp.Body)
	})
}

type closeCounter struct {
	io.Reader
	n *atomic.Int32
}

func (c closeCounter) Close() error { c.n.Add(1); return nil }

// net/http sends a keyed POST again by itself when a reused connection breaks.
// Every delivery must be in the count, and none beyond the limit.
func TestSend_countsWhatNetHTTPRepeats(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	srv, cfg := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/warm" {
			return
		}
		hits.Add(1)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	for _, max := range []int{1, 2, 3} {
		cfg.MaxAttempts = max
		events := &recorder{}
		cfg.Observer = events
		client := newClient(t, cfg)
		_, err := client.Send(t.Context(), post(srv.URL+"/warm"))
		require.NoError(t, err)
		hits.Store(0)
		failed := failure(t, client, post(srv.URL))
		require.Equal(t, retry.Unknown, failed.Outcome)
		require.EqualValues(t, hits.Load(), failed.Attempts, "attempts are deliveries")
		require.LessOrEqual(t, failed.Attempts, max)
		if max == 3 {
			require.Equal(t, 2, events.attempts[1].Deliveries, "net/http repeated the first attempt")
		}
	}
}

func TestSend_countsARepeatThatSucceeds(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	srv, cfg := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if hits.Add(1) != 2 {
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	client := newClient(t, cfg)
	_, err := client.Send(t.Context(), post(srv.URL)) // leaves a connection to reuse
	require.NoError(t, err)
	resp, err := client.Send(t.Context(), post(srv.URL))
	require.NoError(t, err)
	require.EqualValues(t, hits.Load()-1, resp.Attempts)
	require.Equal(t, 2, resp.Attempts)
}

// An HTTP/2 server that refuses the stream has done nothing with it.
func TestSend_refusedStreamIsNotSent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code uint32
		want retry.Outcome
	}{{7, retry.NotSent}, {2, retry.Unknown}} {
		failed := failure(t, newClient(t, over(script(fails(refused{tt.code})))), post(stubURL))
		require.Equal(t, tt.want, failed.Outcome)
	}
}
