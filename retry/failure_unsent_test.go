package retry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// unsentTroubles come before there is a connection, or before it may be used.
var unsentTroubles = []trouble{
	{
		name: "connection refused", outcome: retry.NotSent, action: retry.Retry, attempts: 2, as: as[*net.OpError],
		arrange: func(t *testing.T, s *scene) { s.cfg, s.call.URL = over(ownTransport(t)), s.scheme(nobody(t)) },
	},
	{
		name: "dial times out", outcome: retry.NotSent, action: retry.Retry, attempts: 2,
		arrange: func(t *testing.T, s *scene) { s.dials(t, &net.Dialer{Timeout: time.Nanosecond}) },
	},
	{
		name: "no such host", outcome: retry.NotSent, action: retry.Stop, attempts: 1, as: as[*net.DNSError],
		arrange: func(t *testing.T, s *scene) { s.dials(t, &net.Dialer{Resolver: resolver(t, nameError)}) },
	},
	{
		name: "name server fails", outcome: retry.NotSent, action: retry.Retry, attempts: 2, as: as[*net.DNSError],
		arrange: func(t *testing.T, s *scene) { s.dials(t, &net.Dialer{Resolver: resolver(t, serverFailure)}) },
	},
	{
		name: "name server is silent", outcome: retry.NotSent, action: retry.Retry, attempts: 2, is: []error{retry.ErrAttemptTimeout},
		timeout: attemptTimeout,
		arrange: func(t *testing.T, s *scene) { s.dials(t, &net.Dialer{Resolver: resolver(t, silence)}) },
	},
	{
		name: "the caller leaves while it dials", outcome: retry.NotSent, action: retry.Retry, attempts: 1, is: []error{context.Canceled},
		arrange: func(t *testing.T, s *scene) { s.dials(t, &net.Dialer{ControlContext: s.leaves}) },
	},
	{
		name: "the call's time ends while it dials", outcome: retry.NotSent, action: retry.Retry, attempts: 1,
		is: []error{retry.ErrDeadline, context.DeadlineExceeded}, timeout: callTimeout,
		arrange: func(t *testing.T, s *scene) { s.dials(t, &net.Dialer{Resolver: resolver(t, silence)}) },
	},
	{
		name: "every connection is taken", outcome: retry.NotSent, action: retry.Retry, attempts: 2, is: []error{retry.ErrAttemptTimeout},
		never:   map[protocol]string{http2: "calls share a connection"},
		timeout: attemptTimeout, arrange: takeTheOnlyConnection,
	},
	{
		name: "proxy is down", outcome: retry.NotSent, action: retry.Retry, attempts: 2,
		arrange: func(t *testing.T, s *scene) { s.proxied(t, nobody(t)) },
	},
	{
		name: "proxy refuses the tunnel", outcome: retry.NotSent, action: retry.Retry, attempts: 2,
		never: map[protocol]string{plain: "it goes through a proxy without a tunnel"},
		arrange: func(t *testing.T, s *scene) {
			proxy, _ := serve(t, plain, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
			s.proxied(t, proxy.URL)
		},
	},
}

const noTLS = "there is no TLS"

// handshakeTroubles come with TLS.
var handshakeTroubles = []trouble{
	{
		name: "untrusted certificate", outcome: retry.NotSent, action: retry.Stop, attempts: 1, as: as[*tls.CertificateVerificationError],
		never: map[protocol]string{plain: noTLS},
		arrange: func(t *testing.T, s *scene) {
			srv, _ := serve(t, s.protocol, okay)
			s.cfg, s.call.URL = over(ownTransport(t)), srv.URL
		},
	},
	{
		name: "certificate of another host", outcome: retry.NotSent, action: retry.Stop, attempts: 1, as: as[x509.HostnameError],
		never: map[protocol]string{plain: noTLS},
		arrange: func(t *testing.T, s *scene) {
			s.handshakes(t, nil, func(_ *httptest.Server, c *tls.Config) { c.ServerName = "payment.test" })
		},
	},
	{
		name: "expired certificate", outcome: retry.NotSent, action: retry.Stop, attempts: 1, as: as[x509.CertificateInvalidError],
		never: map[protocol]string{plain: noTLS},
		arrange: func(t *testing.T, s *scene) {
			s.handshakes(t, nil, func(srv *httptest.Server, c *tls.Config) {
				c.Time = func() time.Time { return srv.Certificate().NotAfter.Add(time.Hour) }
			})
		},
	},
	{
		name: "no common version of TLS", outcome: retry.NotSent, action: retry.Stop, attempts: 1,
		never: map[protocol]string{plain: noTLS},
		arrange: func(t *testing.T, s *scene) {
			s.handshakes(t, &tls.Config{MaxVersion: tls.VersionTLS12}, func(_ *httptest.Server, c *tls.Config) { c.MinVersion = tls.VersionTLS13 })
		},
	},
	{
		name: "client certificate wanted, TLS 1.2", outcome: retry.NotSent, action: retry.Stop, attempts: 1, as: as[*net.OpError],
		never: map[protocol]string{plain: noTLS},
		arrange: func(t *testing.T, s *scene) {
			s.handshakes(t, &tls.Config{MaxVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert}, func(*httptest.Server, *tls.Config) {})
		},
	},
	{
		name: "client certificate wanted, TLS 1.3", outcome: retry.Unknown, action: retry.Stop, attempts: 1,
		never: map[protocol]string{
			plain: noTLS, http2: "it is a matter of time whether the refusal comes before the connection counts as one",
		},
		arrange: func(t *testing.T, s *scene) { // the client has its connection before it hears of it
			s.handshakes(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert}, func(*httptest.Server, *tls.Config) {})
		},
	},
	{
		name: "handshake reset", outcome: retry.NotSent, action: retry.Retry, attempts: 2,
		never: map[protocol]string{plain: noTLS},
		arrange: func(t *testing.T, s *scene) {
			s.greets(t, func(conn net.Conn) { conn.Read(make([]byte, 1)); reset(conn) })
		},
	},
	{
		name: "handshake hung up on", outcome: retry.NotSent, action: retry.Retry, attempts: 2,
		never: map[protocol]string{plain: noTLS},
		arrange: func(t *testing.T, s *scene) {
			s.greets(t, func(conn net.Conn) { conn.Read(make([]byte, 1<<16)); conn.Close() })
		},
	},
	{
		name: "handshake that never ends", outcome: retry.NotSent, action: retry.Retry, attempts: 2, is: []error{retry.ErrAttemptTimeout},
		never: map[protocol]string{plain: noTLS}, timeout: attemptTimeout,
		arrange: func(t *testing.T, s *scene) { s.greets(t, func(net.Conn) {}) },
	},
	{
		name: "no TLS behind https", outcome: retry.NotSent, action: retry.Stop, attempts: 1,
		never: map[protocol]string{plain: noTLS},
		arrange: func(t *testing.T, s *scene) {
			srv, _ := serve(t, plain, okay)
			s.cfg, s.call.URL = over(ownTransport(t)), https(srv.URL)
		},
	},
}

// scheme returns the http URL with the protocol's scheme.
func (s *scene) scheme(url string) string {
	if s.protocol == plain {
		return url
	}
	return https(url)
}

// dials sets up a call to a server that would answer, but for the dialer; the
// URL has its name if the dialer has a resolver.
func (s *scene) dials(t *testing.T, dialer *net.Dialer) {
	srv, _ := serve(t, s.protocol, okay)
	tr := ownTransport(t)
	tr.DialContext = dialer.DialContext
	s.cfg, s.call.URL = over(tr), srv.URL
	if dialer.Resolver != nil {
		s.call.URL = s.scheme("http://payment.test")
	}
}

// leaves is a net.Dialer's ControlContext: the socket is there, and not connected.
func (s *scene) leaves(ctx context.Context, _, _ string, _ syscall.RawConn) error {
	s.cancel()
	<-ctx.Done()
	return ctx.Err()
}

// proxied sets up a call through the proxy to a server that would answer.
func (s *scene) proxied(t *testing.T, proxy string) {
	srv, _ := serve(t, s.protocol, okay)
	at, err := url.Parse(proxy)
	require.NoError(t, err)
	tr := ownTransport(t)
	tr.Proxy = http.ProxyURL(at)
	s.cfg, s.call.URL = over(tr), srv.URL
}

// handshakes sets up a server and a client whose configurations do not go together.
func (s *scene) handshakes(t *testing.T, server *tls.Config, client func(*httptest.Server, *tls.Config)) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(okay))
	srv.TLS, srv.EnableHTTP2, srv.Config.ErrorLog = server, s.protocol == http2, discardLog
	srv.StartTLS()
	t.Cleanup(srv.Close)
	tr := ownTransport(t)
	tr.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
	tr.TLSClientConfig.RootCAs.AddCert(srv.Certificate())
	client(srv, tr.TLSClientConfig)
	s.cfg, s.call.URL = over(tr), srv.URL
}

// greets sets up a call over https to a server that treats connections so.
func (s *scene) greets(t *testing.T, handle func(net.Conn)) {
	s.cfg, s.call.URL = over(ownTransport(t)), https(raw(t, handle))
}

// takeTheOnlyConnection sets up a client that may have one connection, and a
// call that keeps it until the test ends.
func takeTheOnlyConnection(t *testing.T, s *scene) {
	busy, free := make(chan struct{}), make(chan struct{})
	srv, cfg := serve(t, s.protocol, func(_ http.ResponseWriter, r *http.Request) {
		drain(r)
		close(busy)
		<-free
	})
	cfg.Transport.(*http.Transport).MaxConnsPerHost = 1
	first := make(chan error, 1)
	go func() {
		_, err := newClient(t, cfg).Send(context.WithoutCancel(t.Context()), post(srv.URL))
		first <- err
	}()
	t.Cleanup(func() {
		close(free)
		require.NoError(t, <-first)
	})
	<-busy
	s.cfg, s.call.URL = cfg, srv.URL
}
