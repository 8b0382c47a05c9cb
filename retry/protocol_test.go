package retry_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// A protocol is what client and server speak over a real socket.
type protocol string

const (
	plain  protocol = "HTTP 1.1"
	secure protocol = "HTTP 1.1 over TLS"
	http2  protocol = "HTTP 2 over TLS"
)

var protocols = []protocol{plain, secure, http2}

// overEach runs test on each protocol, as parallel subtests.
func overEach(t *testing.T, test func(t *testing.T, p protocol)) {
	t.Helper()
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// serve starts a server on loopback. Its handler may [cut] and [hangUp] the
// connections. The config is quick, with a transport that trusts the server.
func serve(tb testing.TB, p protocol, handler http.HandlerFunc) (*httptest.Server, retry.Config) {
	tb.Helper()
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.ErrorLog = discardLog // handshakes fail on purpose
	srv.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	srv.EnableHTTP2 = p == http2
	if p == plain {
		srv.Start()
	} else {
		srv.StartTLS()
	}
	tb.Cleanup(srv.Close)
	return srv, over(srv.Client().Transport)
}

// okay is a handler that has nothing to say.
func okay(http.ResponseWriter, *http.Request) {}

type connKey struct{}

// socket returns what the request came over, below TLS and HTTP/2.
func socket(r *http.Request) net.Conn {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	if over, ok := conn.(*tls.Conn); ok {
		return over.NetConn()
	}
	return conn
}

// cut resets the connection, as the death of a machine does. It does not return.
func cut(r *http.Request) {
	reset(socket(r))
	panic(http.ErrAbortHandler)
}

// hangUp closes the connection, as the death of a process does. It does not return.
func hangUp(r *http.Request) {
	socket(r).Close()
	panic(http.ErrAbortHandler)
}

func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
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

// speak is [raw] with the protocol's handshake done.
func speak(t *testing.T, p protocol, handle func(net.Conn)) (url string, tr *http.Transport) {
	t.Helper()
	if p == plain {
		return raw(t, handle), ownTransport(t)
	}
	lender, _ := serve(t, p, okay) // of its certificate, and of a client that trusts it
	url = raw(t, func(conn net.Conn) {
		over := tls.Server(conn, lender.TLS)
		if over.Handshake() != nil {
			conn.Close()
			return
		}
		handle(over)
	})
	tr, _ = lender.Client().Transport.(*http.Transport)
	return https(url), tr
}

// https returns the http URL with the other scheme.
func https(url string) string { return "https" + url[len("http"):] }

// ownTransport is a transport without idle connections to leave behind.
func ownTransport(t *testing.T) *http.Transport {
	tr := &http.Transport{ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// readRequest reads a request of HTTP/1.1 to its end.
func readRequest(conn net.Conn) {
	if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		io.Copy(io.Discard, req.Body)
	}
}

// nobody is where nobody listens, nor will while the test runs: the
// local end of a connection that is open.
func nobody(t *testing.T) string {
	t.Helper()
	url := raw(t, func(net.Conn) {})
	conn, err := net.Dial("tcp", url[len("http://"):])
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return "http://" + conn.LocalAddr().String()
}
