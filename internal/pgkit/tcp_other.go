//go:build !linux

package pgkit

import (
	"net"
	"time"
)

// setUserTimeout does nothing: this platform lacks the option.
func setUserTimeout(*net.TCPConn, time.Duration) {}
