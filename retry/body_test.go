package retry_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// A stuck is a body that blocks until it is released, whatever Close says.
type stuck struct {
	release <-chan struct{}
	closed  *atomic.Int32
}

func (s stuck) Read([]byte) (int, error) { <-s.release; return 0, io.EOF }
func (s stuck) Close() error             { s.closed.Add(1); return nil }

// A body that blocks holds nobody past the end of the ctx.
func TestDo_bodyIsReadWithTheContext(t *testing.T) {
	t.Parallel()
	why := errors.New("shut down")
	for _, tt := range []struct {
		name  string
		cause error
		want  error
	}{{"deadline", context.DeadlineExceeded, retry.ErrDeadline}, {"cancelled", why, why}} {
		for _, large := range []bool{false, true} {
			for _, send := range []func(*retry.Client, *http.Request) (*http.Response, error){
				(*retry.Client).Do,
				func(c *retry.Client, req *http.Request) (*http.Response, error) {
					return c.RoundTripper().RoundTrip(req)
				},
			} {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if tt.cause == why {
						var stop context.CancelCauseFunc
						ctx, stop = context.WithCancelCause(t.Context())
						time.AfterFunc(time.Second, func() { stop(why) })
					}
					release, closed := make(chan struct{}), new(atomic.Int32)
					body := stuck{release, closed}
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, stubURL, body)
					require.NoError(t, err)
					req.Header.Set(wire.HeaderKey, `"k"`)
					if large { // then it is opened anew
						req.ContentLength, req.GetBody = 2<<20, func() (io.ReadCloser, error) { return body, nil }
					}
					rt := script(status(200))
					start := time.Now()
					_, err = send(newClient(t, over(rt)), req) //nolint:bodyclose // there is none
					require.ErrorIs(t, err, tt.want)
					require.ErrorIs(t, err, retry.ErrNotSent)
					require.NotErrorIs(t, err, retry.ErrInvalid)
					var failed *retry.Error
					require.ErrorAs(t, err, &failed)
					require.True(t, failed.Retryable)
					require.Equal(t, time.Second, time.Since(start))
					require.Zero(t, rt.count())
					require.NotZero(t, closed.Load())
					close(release)
				})
			}
		}
	}
}

// A stream that blocks when it is read again holds a call no longer than its attempt.
func TestSend_streamIsReadWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release, closed := make(chan struct{}), new(atomic.Int32)
		opened := 0
		stream, err := retry.NewStream(func() (io.ReadCloser, error) {
			if opened++; opened == 3 { // made, sent, read again
				return stuck{release, closed}, nil
			}
			return io.NopCloser(strings.NewReader("body")), nil
		})
		require.NoError(t, err)
		call := post(stubURL)
		call.Body, call.Stream = nil, stream
		rt := script(status(503))
		cfg := over(rt)
		cfg.AttemptTimeout = 3 * time.Second
		start := time.Now()
		failed := failure(t, newClient(t, cfg), call)
		require.ErrorIs(t, failed, retry.ErrAttemptTimeout)
		require.Equal(t, retry.Unknown, failed.Outcome, "of the first attempt")
		require.Equal(t, 1, rt.count())
		require.InDelta(t, 3, time.Since(start).Seconds(), 0.1)
		require.NotZero(t, closed.Load())
		close(release)
	})
}

// A body in memory is read in place: it costs no goroutine, and no ctx ends it halfway.
func TestDo_bodyInMemory(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]io.Reader{
		"bytes":                 bytes.NewReader([]byte("body")),
		"buffer":                bytes.NewBufferString("body"),
		"string":                strings.NewReader("body"),
		"string, to be closed":  io.NopCloser(strings.NewReader("body")),
		"twice":                 io.NopCloser(io.NopCloser(strings.NewReader("body"))),
		"reader without length": bufio.NewReader(strings.NewReader("body")),
		"explicitly none":       http.NoBody,
	} {
		rt := script(status(200))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, stubURL, body)
		require.NoError(t, err)
		req.Header.Set(wire.HeaderKey, `"k"`)
		_, err = passed(newClient(t, over(rt)), req)
		require.NoError(t, err, name)
		want := "body"
		if body == http.NoBody {
			want = ""
		}
		require.Equal(t, []string{want}, rt.bodies, name)
	}
}

// A header that is refused costs no body that is read first.
func TestDo_badHeaderReadsNothing(t *testing.T) {
	t.Parallel()
	release, closed := make(chan struct{}), new(atomic.Int32)
	defer close(release)
	req, err := http.NewRequest(http.MethodPost, stubURL, stuck{release, closed}) //nolint:noctx // nothing would end the read
	require.NoError(t, err)
	req.Header.Set(wire.HeaderKey, `"a`)
	_, err = newClient(t, over(script(status(200)))).Do(req) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, retry.ErrInvalid)
	require.EqualValues(t, 1, closed.Load())
}
