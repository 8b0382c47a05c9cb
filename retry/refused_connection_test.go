package retry_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// If no repetition can help, there is one attempt. A proxy that refuses CONNECT is asked again only where its status says that
// this can help, and not before the time that it names. The service got nothing in any case.
func TestSend_proxyRefusesConnect(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status   string
		header   string
		attempts int
		wait     time.Duration
	}{
		{"407 Proxy Authentication Required", "", 1, 0},
		{"403 Forbidden", "", 1, 0},
		{"405 Method Not Allowed", "Retry-After: 1\r\n", 1, time.Second},
		{"502 Bad Gateway", "", 3, 0},
		{"503 Service Unavailable", "Retry-After: 3600\r\n", 1, time.Hour}, // longer than the client waits
		{"429 Too Many Requests", "Retry-After: 3600.5\r\n", 1, time.Hour + time.Second},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		var asked atomic.Int64
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				asked.Add(1)
				_, _ = http.ReadRequest(bufio.NewReader(conn))
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\n%sContent-Length: 0\r\n\r\n", tt.status, tt.header)
				_ = conn.Close()
			}
		}()
		transport := retry.NewTransport()
		transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String()})
		cfg := retry.Config{Transport: transport, MaxAttempts: 3, Backoff: retry.Backoff{Base: 1, Cap: 1}}
		_, err = newClient(t, cfg).Send(t.Context(), post("https://service.test/"))
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, []any{retry.NotSent, tt.attempts, tt.wait}, []any{failed.Outcome, failed.Attempts, failed.RetryAfter}, "%s: %v", tt.status, err)
		require.EqualValues(t, tt.attempts, asked.Load())
		require.NoError(t, l.Close())
	}
}

// A server that wants a certificate of the client refuses a client without one in an alert. With TLS 1.3 the alert comes
// behind the client's side of the handshake, and the request may be on its way: only if it is, nobody knows.
func TestSend_certificateWanted(t *testing.T) {
	t.Parallel()
	for version, want := range map[uint16][]retry.Outcome{tls.VersionTLS12: {retry.NotSent}, tls.VersionTLS13: {retry.NotSent, retry.Unknown}} {
		srv := httptest.NewUnstartedServer(http.NotFoundHandler())
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: version, MaxVersion: version}
		srv.StartTLS()
		transport := retry.NewTransport()
		transport.TLSClientConfig = &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
		cfg := retry.Config{Transport: transport, Backoff: retry.Backoff{Base: 1, Cap: 1}}
		_, err := newClient(t, cfg).Send(t.Context(), post(srv.URL))
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.Contains(t, want, failed.Outcome, "%v", err)
		require.False(t, failed.Retryable, "%v", err)
		require.Equal(t, 1, failed.Attempts, "%v", err)
		srv.Close()
	}
}

// Alerts that say nothing of the next attempt are tried again.
func TestSend_passingAlert(t *testing.T) {
	t.Parallel()
	for alert, attempts := range map[tls.AlertError]int{80: 4, 90: 4, 40: 1, 70: 1, 116: 1} { // internal_error, user_canceled
		rt := script(fails(&net.OpError{Op: "remote error", Err: alert}))
		_, err := newClient(t, over(rt)).Send(t.Context(), post(stubURL))
		require.Error(t, err)
		require.True(t, errors.Is(err, alert), "%v", err)
		require.Equal(t, attempts, rt.count(), "%v", err)
	}
}
