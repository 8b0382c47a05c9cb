package retry_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

// A kept connection breaks after the service has run the call, and net/http sends it again by itself. The answer to
// that, of somebody in front of the service, is not taken for the end of the call.
func TestSend_answerToARepeat(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"404 Not Found", "400 Bad Request", "200 OK"} {
		var requests, effects atomic.Int32
		url := raw(t, func(conn net.Conn) {
			reader := bufio.NewReader(conn)
			for {
				req, err := http.ReadRequest(reader)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				switch requests.Add(1) {
				case 1: // of another call
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nIdempotent-Replayed: false\r\nContent-Length: 0\r\n\r\n")
				case 2:
					effects.Add(1)
					_ = conn.Close()
					return
				default:
					_, _ = io.WriteString(conn, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n")
				}
			}
		})
		cfg := over(ownTransport(t))
		cfg.Profile = retry.Fanonce()
		c := newClient(t, cfg)
		_, err := c.Send(t.Context(), post(url))
		require.NoError(t, err)
		call := post(url)
		call.Key = childkey.MustParse("another")
		_, err = c.Send(t.Context(), call)
		var failed *retry.Error
		require.ErrorAs(t, err, &failed, status)
		require.Equal(t, retry.Unknown, failed.Outcome, status)
		require.EqualValues(t, 1, effects.Load())
		require.Greater(t, failed.Attempts, 1)

		requests.Store(0)
		cfg.Transport = ownTransport(t)
		through := newClient(t, cfg).RoundTripper()
		calls := new(retry.Calls)
		for n := range 2 {
			calls = new(retry.Calls)
			req, err := http.NewRequestWithContext(calls.Context(t.Context()), http.MethodPost, url, strings.NewReader("x"))
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", `"k-`+strconv.Itoa(n)+`"`)
			if resp, err := through.RoundTrip(req); err == nil { //nolint:bodyclose // it is closed
				_, _ = io.Copy(io.Discard, resp.Body)
				require.NoError(t, resp.Body.Close())
			}
		}
		if status != "200 OK" { // a drop-in transport hands it on
			require.Equal(t, retry.Unknown, calls.Outcome(), status)
		}
	}
}
