package retry

import (
	"net"
	"net/http"
	"time"
)

// NewTransport returns a transport as a [Client] makes one for itself, for clients that
// need another proxy or other TLS settings. Change it before its first use. It differs from
// [http.DefaultTransport] in two ways:
//
//   - It keeps up to 256 idle connections, all of which may lead to one service.
//   - It pings an HTTP/2 connection on which nothing arrived for 5 s, and closes the
//     connection if no answer comes within 5 s. A connection that died without a word would
//     else take every attempt.
func NewTransport() *http.Transport {
	const idle, silence = 256, 5 * time.Second
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          idle,
		MaxIdleConnsPerHost:   idle,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: silence},
	}
}
