package retry_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// A blackHole passes connections on to a server. Those that exist when it goes dark stay
// open, and lose every byte.
type blackHole struct {
	net.Listener
	to    string
	conns atomic.Int32
	dark  atomic.Int32 // the connections up to this number are dead
	all   sync.WaitGroup
}

func newBlackHole(t *testing.T, to string) *blackHole {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &blackHole{Listener: ln, to: to}
	b.all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			b.all.Go(func() { b.serve(conn, b.conns.Add(1)) })
		}
	})
	return b
}

func (b *blackHole) serve(down net.Conn, number int32) {
	defer down.Close()
	up, err := net.Dial("tcp", b.to)
	if err != nil {
		return
	}
	defer up.Close()
	pass := func(dst, src net.Conn) {
		defer dst.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			if err != nil {
				return
			}
			if number > b.dark.Load() {
				dst.Write(buf[:n])
			}
		}
	}
	var back sync.WaitGroup
	back.Go(func() { pass(down, up) })
	pass(up, down)
	back.Wait()
}

// An HTTP/2 connection that dies without a word is found out by pings, within the attempt
// that uses it, and is replaced.
func TestNewTransport_findsDeadConnections(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, http2, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	hole := newBlackHole(t, srv.Listener.Addr().String())
	tr := retry.NewTransport()
	require.NotNil(t, tr.HTTP2)
	found := tr.HTTP2.SendPingTimeout + tr.HTTP2.PingTimeout
	require.Positive(t, tr.HTTP2.SendPingTimeout)
	require.Less(t, found, retry.DefaultAttemptTimeout)
	tr.HTTP2.SendPingTimeout /= 20 // so that the test does not last for 10 s
	tr.HTTP2.PingTimeout /= 20
	tr.TLSClientConfig = &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		hole.Close()
		srv.CloseClientConnections()
		hole.all.Wait()
	})
	client := newClient(t, over(tr))
	url := "https://" + hole.Addr().String()
	_, err := client.Send(t.Context(), post(url))
	require.NoError(t, err)
	hole.dark.Store(hole.conns.Load())
	start := time.Now()
	resp, err := client.Send(t.Context(), post(url))
	require.NoError(t, err)
	require.Equal(t, 2, resp.Attempts)
	require.EqualValues(t, 2, hole.conns.Load())
	require.Less(t, time.Since(start), retry.DefaultAttemptTimeout, "the attempt ended by the ping")
}
