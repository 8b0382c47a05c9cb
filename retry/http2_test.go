package retry_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// refused is an HTTP/2 stream error as net/http has it: unexported, and copied
// by errors.As into whatever struct has the same fields.
type refused struct{ code uint32 }

func (refused) Error() string { return "stream error" }

func (r refused) As(target any) bool {
	v := reflect.ValueOf(target).Elem()
	if v.Kind() != reflect.Struct || v.NumField() != 3 || v.Type().Field(1).Name != "Code" {
		return false
	}
	v.Field(1).SetUint(uint64(r.code))
	return true
}

// TestSend_refusedStreamOverHTTP2 speaks frames: the server refuses the first
// stream, which net/http repeats by itself, and answers the second.
func TestSend_refusedStreamOverHTTP2(t *testing.T) {
	t.Parallel()
	var streams atomic.Int32
	url := raw(t, func(conn net.Conn) {
		defer conn.Close()
		serveFrames(conn, &streams)
	})
	tr := ownTransport(t)
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetUnencryptedHTTP2(true)
	resp, err := newClient(t, over(tr)).Send(t.Context(), post(url))
	require.NoError(t, err)
	require.Equal(t, 204, resp.Status)
	require.Equal(t, int(streams.Load()), resp.Attempts, "every stream is counted")
	require.Equal(t, 2, resp.Attempts)

	// Where no repeat is left, net/http says only that it may not repeat: that
	// proves nothing.
	streams.Store(-100)
	cfg := over(tr)
	cfg.MaxAttempts = 1
	failed := failure(t, newClient(t, cfg), post(url))
	require.Equal(t, retry.Unknown, failed.Outcome)
}

// A server that refuses every stream has done nothing, as often as net/http
// may have asked.
func TestSend_everyStreamRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var streams atomic.Int32
		streams.Store(-100)
		tr := ownTransport(t)
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
		var serving sync.WaitGroup
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			serving.Go(func() { defer server.Close(); serveFrames(server, &streams) })
			return client, nil
		}
		cfg := over(tr)
		cfg.AttemptTimeout, cfg.Timeout, cfg.MaxAttempts = time.Hour, 2*time.Hour, 1
		call := post(stubURL)
		call.Body = nil // so that nothing keeps net/http from repeating it
		failed := failure(t, newClient(t, cfg), call)
		require.Equal(t, retry.NotSent, failed.Outcome)
		require.EqualValues(t, streams.Load()+100, failed.Attempts)
		require.Greater(t, failed.Attempts, 2)
		tr.CloseIdleConnections()
		serving.Wait()
	})
}

// The frame types and flags that the server needs (RFC 9113 section 6).
const (
	frameHeaders, frameReset, frameSettings = 1, 3, 4
	flagEndStream, flagAck, flagEndHeaders  = 1, 1, 4
)

// serveFrames answers the second stream that it counts and refuses all others.
// It writes in a goroutine of its own: an in-memory connection has no buffer, in
// which the two sides' frames could pass each other.
func serveFrames(conn net.Conn, streams *atomic.Int32) {
	frames := make(chan []byte, 64)
	var writing sync.WaitGroup
	writing.Go(func() {
		for f := range frames {
			conn.Write(f)
		}
	})
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
		stream := binary.BigEndian.Uint32(head[5:])
		switch {
		case head[3] == frameSettings && head[4]&flagAck == 0:
			frames <- frame(frameSettings, flagAck, 0, nil)
		case head[3] == frameHeaders && streams.Add(1) != 2:
			frames <- frame(frameReset, 0, stream, []byte{0, 0, 0, 7})
		case head[3] == frameHeaders:
			frames <- frame(frameHeaders, flagEndStream|flagEndHeaders, stream, []byte{0x89}) // :status 204
		}
	}
}

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := append([]byte{0, 0, byte(len(payload)), kind, flags}, binary.BigEndian.AppendUint32(nil, stream)...)
	return append(head, payload...)
}
