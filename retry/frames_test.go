package retry_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// The frame types, flags and error codes of HTTP/2 that the tests need (RFC
// 9113 sections 6 and 7).
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway = 0, 1, 3, 4, 7
	flagEndStream, flagAck, flagEndHeaders                          = 1, 1, 4

	noError, protocolError, internalError, refusedStream = 0, 1, 2, 7
	cancelled, enhanceYourCalm, http11Required           = 8, 11, 13
)

// A reply is what a server of frames does about a stream that was opened.
type reply struct {
	frames [][]byte
	hangUp bool // afterwards
}

// serveFrames speaks HTTP/2 over conn, and replies to streams when their headers have come. It
// writes in a separate goroutine: an in-memory connection lacks a buffer in which the two sides'
// frames could pass each other.
func serveFrames(conn net.Conn, opened func(stream uint32) reply) {
	frames := make(chan []byte, 64)
	var writing sync.WaitGroup
	writing.Go(func() {
		for f := range frames {
			conn.Write(f)
		}
	})
	defer conn.Close()
	defer writing.Wait()
	defer close(frames)
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	frames <- frame(frameSettings, 0, 0, nil)
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, conn, length); err != nil {
			return
		}
		switch {
		case head[3] == frameSettings && head[4]&flagAck == 0:
			frames <- frame(frameSettings, flagAck, 0, nil)
		case head[3] == frameHeaders:
			say := opened(binary.BigEndian.Uint32(head[5:]))
			for _, f := range say.frames {
				frames <- f
			}
			if say.hangUp {
				return
			}
		}
	}
}

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := append([]byte{0, 0, byte(len(payload)), kind, flags}, binary.BigEndian.AppendUint32(nil, stream)...)
	return append(head, payload...)
}

// resetStream ends the stream with an error code.
func resetStream(stream uint32, code byte) []byte {
	return frame(frameReset, 0, stream, []byte{0, 0, 0, code})
}

// goAway says that the connection ends, and that no stream above last was or
// will be processed.
func goAway(last uint32, code byte) []byte {
	return frame(frameGoAway, 0, 0, append(binary.BigEndian.AppendUint32(nil, last), 0, 0, 0, code))
}

// noContent answers the stream with :status 204, which is entry 9 of the static
// table of HPACK (RFC 7541 appendix A).
func noContent(stream uint32) []byte {
	return frame(frameHeaders, flagEndStream|flagEndHeaders, stream, []byte{0x80 | 9})
}

// headersOnly begins an answer with :status 200.
func headersOnly(stream uint32) []byte {
	return frame(frameHeaders, flagEndHeaders, stream, []byte{0x80 | 8})
}
