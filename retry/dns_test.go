package retry_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// The answers of a name server (RFC 1035 section 4.1.1).
const (
	serverFailure, nameError = 2, 3
	silence                  = -1
)

// resolver asks a name server on loopback that answers everything with rcode.
func resolver(t *testing.T, rcode int) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		message := make([]byte, 1<<10)
		for {
			n, from, err := server.ReadFrom(message)
			if err != nil {
				return
			}
			if rcode != silence && n > 3 {
				message[2] |= 0x80 // a response
				message[3] = message[3]&0xf0 | byte(rcode)
				server.WriteTo(message[:n], from)
			}
		}
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}
