package retry

import (
	"context"
	"net"
	"net/http"
	"time"
)

// NewTransport returns a transport as a [Client] makes one for itself, for clients that
// need another proxy or other TLS settings. Change it before its first use. It differs from
// [http.DefaultTransport] in three ways:
//
//   - It keeps up to 256 idle connections, all of which may lead to one service.
//   - It pings an HTTP/2 connection on which nothing arrived for 5 s, and closes the
//     connection if no answer comes within 5 s. A connection that died without a word would
//     else take every attempt.
//   - Its DialContext counts what is written to a connection. A request of HTTP/1 that fails
//     before a byte of it was written is therefore [NotSent], as on a kept connection that
//     the server has closed. With another DialContext, or with a DialTLSContext, such a
//     request is [Unknown]: net/http does not tell what it has written.
func NewTransport() *http.Transport {
	const idle, silence = 256, 5 * time.Second
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           countedDial(dialer),
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          idle,
		MaxIdleConnsPerHost:   idle,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: silence},
	}
}

// countedDial dials connections that know whether something was written to them.
func countedDial(dialer *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: conn}, nil
	}
}
