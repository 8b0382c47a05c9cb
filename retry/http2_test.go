package retry_test

import (
	"context"
	"net"
	"net/http"
	"reflect"
	"sync"
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

// A server that refuses every stream has done nothing, as often as net/http
// may have asked.
func TestSend_everyStreamRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		streams := 0
		tr := ownTransport(t)
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
		var serving sync.WaitGroup
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			serving.Go(func() {
				serveFrames(server, func(stream uint32) reply {
					streams++
					return reply{frames: [][]byte{resetStream(stream, refusedStream)}}
				})
			})
			return client, nil
		}
		cfg := over(tr)
		cfg.AttemptTimeout, cfg.Timeout, cfg.MaxAttempts = time.Hour, 2*time.Hour, 1
		call := post(stubURL)
		call.Body = nil // so that nothing keeps net/http from repeating it
		failed := failure(t, newClient(t, cfg), call)
		require.Equal(t, retry.NotSent, failed.Outcome)
		tr.CloseIdleConnections()
		serving.Wait()
		require.Equal(t, streams, failed.Attempts)
		require.Greater(t, failed.Attempts, 2)
	})
}
