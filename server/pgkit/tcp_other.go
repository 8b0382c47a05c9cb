//go:build !linux

package pgkit

import (
	"net"
	"time"
)

// setUserTimeout does nothing: this platform has no such option.
func setUserTimeout(*net.TCPConn, time.Duration) {}
