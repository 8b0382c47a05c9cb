package pgkit

import (
	"net"
	"time"
)

// The bounds of a network that swallows packets, which the kernel keeps: it breaks a connection on
// which sent data, or probes, are not acknowledged. They find a host that has vanished, but not a
// host that acknowledges and never answers; see [Writer].
const (
	keepAliveIdle     = 5 * time.Second
	keepAliveInterval = 2 * time.Second
	keepAliveCount    = 3
	userTimeout       = 10 * time.Second
)

// boundSilence makes the kernel notice that the other end of conn has vanished, as far as the
// platform can. It changes nothing where it cannot.
func boundSilence(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{ // one defence of several
		Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
	})
	setUserTimeout(tcp, userTimeout)
}
