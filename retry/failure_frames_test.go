package retry_test

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

const noFrames = "it has no frames"

// frameTroubles are what a server of HTTP/2 can say that HTTP/1.1 cannot.
var frameTroubles = []trouble{
	frames("stream reset: internal error", func(stream uint32) reply { return reply{frames: [][]byte{resetStream(stream, internalError)}} }),
	frames("stream reset: protocol error", func(stream uint32) reply { return reply{frames: [][]byte{resetStream(stream, protocolError)}} }),
	frames("stream reset: cancelled", func(stream uint32) reply { return reply{frames: [][]byte{resetStream(stream, cancelled)}} }),
	frames("stream reset: calm down", func(stream uint32) reply { return reply{frames: [][]byte{resetStream(stream, enhanceYourCalm)}} }),
	frames("stream reset: HTTP/1.1 wanted", func(stream uint32) reply { return reply{frames: [][]byte{resetStream(stream, http11Required)}} }),
	frames("stream reset in the middle of the answer", func(stream uint32) reply {
		return reply{frames: [][]byte{headersOnly(stream), frame(frameData, 0, stream, []byte("half")), resetStream(stream, noError)}}
	}, retry.ErrTruncated),
	frames("connection closed under the stream", func(uint32) reply { return reply{hangUp: true} }),
	frames("GOAWAY that counts the stream, then closed", func(stream uint32) reply {
		return reply{frames: [][]byte{goAway(stream, noError)}, hangUp: true}
	}),
	frames("bytes that are no frames", func(uint32) reply { return reply{frames: [][]byte{[]byte("HTTP/1.1 200 OK\r\n\r\n")}, hangUp: true} }),
	frames("interim answer as the last one", func(stream uint32) reply {
		early := []byte{0x08, 0x03, '1', '0', '3'} // :status 103, spelled out
		return reply{frames: [][]byte{frame(frameHeaders, flagEndStream|flagEndHeaders, stream, early)}}
	}),
	// A refusal proves that nothing was done, but net/http repeats the request by
	// itself, and where it may not any more it does not tell why.
	frames("every stream refused", func(stream uint32) reply { return reply{frames: [][]byte{resetStream(stream, refusedStream)}} }),
}

// frames is the row of a server that replies to every stream so: its callee may
// have done the work.
func frames(name string, opened func(stream uint32) reply, is ...error) trouble {
	return trouble{
		name: name, outcome: retry.Unknown, action: retry.Retry, attempts: 2, is: is,
		never: map[protocol]string{plain: noFrames, secure: noFrames},
		arrange: func(t *testing.T, s *scene) {
			url, tr := speak(t, s.protocol, func(conn net.Conn) { serveFrames(conn, opened) })
			s.cfg, s.call.URL = over(tr), url
		},
	}
}

// A request that the server provably did not process is sent again, by net/http or by this
// package. Each delivery counts.
func TestSend_healsWhatFramesTurnAway(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		first    func(stream uint32) reply
		attempts int
	}{
		{"stream refused", func(stream uint32) reply { return reply{frames: [][]byte{resetStream(stream, refusedStream)}} }, 2},
		{"GOAWAY below the stream", func(uint32) reply { return reply{frames: [][]byte{goAway(0, noError)}} }, 2},
		{"GOAWAY below the stream, then closed", func(uint32) reply { return reply{frames: [][]byte{goAway(0, noError)}, hangUp: true} }, 2},
		{"GOAWAY that counts the stream, then an answer", func(stream uint32) reply {
			return reply{frames: [][]byte{goAway(stream, noError), noContent(stream)}}
		}, 1},
		{"an answer before the end of the request", func(stream uint32) reply {
			return reply{frames: [][]byte{noContent(stream), resetStream(stream, noError)}}
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var opened atomic.Int32
			url, tr := speak(t, http2, func(conn net.Conn) {
				serveFrames(conn, func(stream uint32) reply {
					if opened.Add(1) == 1 {
						return tt.first(stream)
					}
					return reply{frames: [][]byte{noContent(stream)}}
				})
			})
			resp, err := newClient(t, over(tr)).Send(t.Context(), post(url))
			require.NoError(t, err)
			require.Equal(t, 204, resp.Status)
			require.Equal(t, tt.attempts, resp.Attempts)
			require.EqualValues(t, tt.attempts, opened.Load(), "every stream counts")
		})
	}
}
