package retry_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// A source opens bodies by script, its last one again and again, and counts.
type source struct {
	bodies         []func() (io.Reader, error)
	opened, closed atomic.Int32
}

func (s *source) open() (io.ReadCloser, error) {
	n := int(s.opened.Add(1))
	body, err := s.bodies[min(n, len(s.bodies))-1]()
	if err != nil || body == nil {
		s.closed.Add(1)
		return nil, err
	}
	return &closeOnce{Reader: body, closed: &s.closed}, nil
}

type closeOnce struct {
	io.Reader
	once   sync.Once
	closed *atomic.Int32
}

func (c *closeOnce) Close() error {
	c.once.Do(func() { c.closed.Add(1) })
	return nil
}

// requireClosed waits, because a transport may close after it has answered.
func (s *source) requireClosed(t *testing.T) {
	t.Helper()
	closed := func() bool { return s.opened.Load() == s.closed.Load() }
	require.Eventually(t, closed, 10*time.Second, time.Millisecond, "what was opened is closed")
}

func text(s string) func() (io.Reader, error) {
	return func() (io.Reader, error) { return strings.NewReader(s), nil }
}

func sources(bodies ...func() (io.Reader, error)) *source { return &source{bodies: bodies} }

func upload(tb testing.TB, url string, s *source) retry.Call {
	tb.Helper()
	stream, err := retry.NewStream(s.open)
	require.NoError(tb, err)
	call := post(url)
	call.Body, call.Stream = nil, stream
	return call
}

func TestStream(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		var hits atomic.Int32
		body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		srv, cfg := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			got, err := io.ReadAll(r.Body)
			if err != nil || !bytes.Equal(got, body) || r.ContentLength != int64(len(body)) {
				t.Errorf("read %d bytes of %d announced: %v", len(got), r.ContentLength, err)
			}
			if hits.Add(1) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		s := sources(func() (io.Reader, error) { return iotest.HalfReader(bytes.NewReader(body)), nil })
		resp, err := newClient(t, cfg).Send(t.Context(), upload(t, srv.URL, s))
		require.NoError(t, err)
		require.Equal(t, 3, resp.Attempts)
		s.requireClosed(t)
	}
}

func TestStream_empty(t *testing.T) {
	t.Parallel()
	rt := script(status(503), status(200))
	s := sources(text(""))
	_, err := newClient(t, over(rt)).Send(t.Context(), upload(t, stubURL, s))
	require.NoError(t, err)
	require.Nil(t, rt.requests[1].Body)
	s.requireClosed(t)
}

// Another body is found before a repetition is sent.
func TestStream_changedBetweenAttempts(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"body 2", "body", "body 1 and more", ""} {
		rt := script(status(503))
		s := sources(text("body 1"), text("body 1"), text(other))
		failed := failure(t, newClient(t, over(rt)), upload(t, stubURL, s))
		require.ErrorIs(t, failed, retry.ErrPayloadChanged)
		require.Equal(t, retry.Unknown, failed.Outcome, "of the first attempt")
		require.Equal(t, 1, rt.count())
		s.requireClosed(t)
	}
}

// Another body that comes while it is being sent never gets a callee that acts
// on it: it does not see its end.
func TestStream_changedWhileItIsSent(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("a", 1<<10)
	for _, tt := range []struct{ name, sent string }{
		{"last byte", body[1:] + "b"},
		{"first byte", "b" + body[1:]},
		{"shorter", body[1:]},
		{"longer", body + "a"},
		{"nothing", ""},
	} {
		for _, protocol := range protocols {
			var whole atomic.Int32
			srv, cfg := serve(t, protocol, func(_ http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err == nil {
					whole.Add(1)
				}
			})
			s := sources(text(body), text(tt.sent))
			failed := failure(t, newClient(t, cfg), upload(t, srv.URL, s))
			require.ErrorIs(t, failed, retry.ErrPayloadChanged, tt.name)
			require.Equal(t, 1, failed.Attempts)
			srv.Close() // it waits for its handlers
			require.Zero(t, whole.Load(), tt.name)
			s.requireClosed(t)
		}
	}
}

func TestStream_fails(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	fails := func() (io.Reader, error) { return nil, broken }
	breaks := func() (io.Reader, error) {
		return io.MultiReader(strings.NewReader("bo"), iotest.ErrReader(broken)), nil
	}
	for _, tt := range []struct {
		name    string
		bodies  []func() (io.Reader, error)
		want    error
		outcome retry.Outcome
		hits    int
	}{
		{"cannot be opened to be sent", []func() (io.Reader, error){text("body"), fails}, broken, retry.NotSent, 0},
		{"cannot be opened again", []func() (io.Reader, error){text("body"), text("body"), fails}, broken, retry.Unknown, 1},
		{"cannot be read again", []func() (io.Reader, error){text("body"), text("body"), breaks}, broken, retry.Unknown, 1},
	} {
		rt := script(status(500))
		s := sources(tt.bodies...)
		failed := failure(t, newClient(t, over(rt)), upload(t, stubURL, s))
		require.ErrorIs(t, failed, tt.want, tt.name)
		require.Equal(t, tt.outcome, failed.Outcome, tt.name)
		require.Equal(t, tt.hits, rt.count(), tt.name)
		s.requireClosed(t)
	}
}

// A body that breaks off on its way is not tried again: the callee may have
// seen most of it, and the next one would break as well.
func TestStream_breaksWhileItIsSent(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	srv, cfg := serve(t, plain, func(_ http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		io.Copy(io.Discard, r.Body)
	})
	broken := errors.New("disk on fire")
	body := strings.Repeat("a", 1<<20)
	s := sources(text(body), func() (io.Reader, error) {
		return io.MultiReader(strings.NewReader(body[1:]), iotest.ErrReader(broken)), nil
	})
	failed := failure(t, newClient(t, cfg), upload(t, srv.URL, s))
	require.ErrorIs(t, failed, broken)
	require.Equal(t, retry.Unknown, failed.Outcome)
	require.False(t, failed.Retryable)
	// The client does not wait for a server that has not yet turned to the request.
	require.Eventually(t, func() bool { return hits.Load() > 0 }, time.Minute, time.Millisecond)
	srv.Close()
	require.EqualValues(t, 1, hits.Load())
	s.requireClosed(t)
}

func TestStream_invalid(t *testing.T) {
	t.Parallel()
	both := upload(t, stubURL, sources(text("body")))
	both.Body = []byte("body")
	zero := post(stubURL)
	zero.Body, zero.Stream = nil, new(retry.Stream)
	for _, call := range []retry.Call{both, zero} {
		failed := failure(t, newClient(t, over(script(status(200)))), call)
		require.ErrorIs(t, failed, retry.ErrInvalid)
		require.Equal(t, retry.NotSent, failed.Outcome)
	}
}

func TestNewStream(t *testing.T) {
	t.Parallel()
	s := sources(text("body"))
	stream, err := retry.NewStream(s.open)
	require.NoError(t, err)
	require.EqualValues(t, 4, stream.Size())
	require.Equal(t, sha256.Sum256([]byte("body")), stream.Sum())
	s.requireClosed(t)

	broken := errors.New("disk on fire")
	for _, tt := range []struct {
		name string
		body func() (io.Reader, error)
		want error
	}{
		{"cannot be opened", func() (io.Reader, error) { return nil, broken }, broken},
		{"cannot be read", func() (io.Reader, error) { return iotest.ErrReader(broken), nil }, broken},
		{"neither body nor error", func() (io.Reader, error) { return nil, nil }, retry.ErrInvalid},
	} {
		s := sources(tt.body)
		_, err := retry.NewStream(s.open)
		require.ErrorIs(t, err, tt.want, tt.name)
		require.ErrorIs(t, err, retry.ErrInvalid, tt.name)
		s.requireClosed(t)
	}
	_, err = retry.NewStream(nil)
	require.ErrorIs(t, err, retry.ErrInvalid)
}

// A hook may read the body. The stream is sent, whatever the hook leaves in its copy.
func TestStream_prepare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		prepare func(int, *http.Request) error
		want    error
	}{
		{"reads it", func(_ int, r *http.Request) error { _, err := io.Copy(io.Discard, r.Body); return err }, nil},
		{"closes it", func(_ int, r *http.Request) error { return r.Body.Close() }, nil},
		{"replaces it", func(_ int, r *http.Request) error {
			r.Body = io.NopCloser(strings.NewReader("ydob"))
			return nil
		}, nil},
		{"fails", func(int, *http.Request) error { return errBroken }, errBroken},
	} {
		rt := script(status(503), status(200))
		cfg := over(rt)
		cfg.Prepare = tt.prepare
		s := sources(text("body"))
		_, err := newClient(t, cfg).Send(t.Context(), upload(t, stubURL, s))
		require.ErrorIs(t, err, tt.want, tt.name)
		s.requireClosed(t)
		if tt.want == nil {
			require.Equal(t, []string{"body", "body"}, rt.bodies, tt.name)
		}
	}
}

// A large body that can be opened again is not copied.
func TestDo_opensLargeBodiesAnew(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1 << 20, 1<<20 + 1} {
		body := strings.Repeat("a", size)
		rt := script(status(503), status(200))
		req, closed := request(t, http.MethodPut, stubURL, body)
		s := sources(text(body))
		req.GetBody, req.ContentLength = s.open, int64(size)
		resp, err := newClient(t, over(rt)).Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []string{body, body}, rt.bodies)
		require.EqualValues(t, 1, closed.Load())
		require.Equal(t, size > 1<<20, s.opened.Load() > 0)
		s.requireClosed(t)
	}
}
