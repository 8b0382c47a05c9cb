package retry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// A transport that ignores httptrace proves nothing by its silence.
func TestSend_untracedTransportIsNotTrusted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		err      error
		want     retry.Outcome
		attempts int
	}{
		{"any error", errBroken, retry.Unknown, 4},
		{"dial", errDial, retry.NotSent, 4},
		{"no such host", &net.DNSError{IsNotFound: true}, retry.NotSent, 1},
		{"unknown authority", x509.UnknownAuthorityError{}, retry.NotSent, 1},
		{"wrapped", errors.Join(errBroken, &tls.CertificateVerificationError{Err: errBroken}), retry.NotSent, 1},
		{"deadline", context.DeadlineExceeded, retry.Unknown, 4},
		{"cancelled though nobody did", context.Canceled, retry.Unknown, 4},
		{"EOF", io.ErrUnexpectedEOF, retry.Unknown, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			failed := failure(t, newClient(t, over(script(fails(tt.err)))), post(stubURL))
			require.Equal(t, tt.want, failed.Outcome)
			require.Equal(t, tt.attempts, failed.Attempts)
			require.ErrorIs(t, failed, tt.err)
		})
	}
}

func TestSend_transportBreaksItsContract(t *testing.T) {
	t.Parallel()
	t.Run("nil and nil", func(t *testing.T) {
		t.Parallel()
		rt := script(func(*http.Request) (*http.Response, error) { return nil, nil })
		failed := failure(t, newClient(t, over(rt)), post(stubURL))
		require.Equal(t, retry.Unknown, failed.Outcome)
		require.Equal(t, 4, rt.count())
	})
	t.Run("response and error", func(t *testing.T) {
		t.Parallel()
		var closed atomic.Int32
		rt := script(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: closeCounter{http.NoBody, &closed}}, errBroken
		})
		failed := failure(t, newClient(t, over(rt)), post(stubURL))
		require.Equal(t, retry.Unknown, failed.Outcome)
		require.EqualValues(t, 4, closed.Load())
	})
	t.Run("nil body", func(t *testing.T) {
		t.Parallel()
		rt := script(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNoContent}, nil
		})
		resp, err := newClient(t, over(rt)).Send(t.Context(), post(stubURL))
		require.NoError(t, err)
		require.Empty(t, resp.Body)
	})
}

type closeCounter struct {
	io.Reader
	n *atomic.Int32
}

func (c closeCounter) Close() error { c.n.Add(1); return nil }

// net/http sends a keyed POST again by itself when a reused connection breaks.
// Every delivery must be in the count, and none beyond the limit.
func TestSend_countsWhatNetHTTPRepeats(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		change  func(*retry.Call, *retry.Config)
		repeats bool // over HTTP/1.1; HTTP/2 does not repeat a request that may have been processed
		always  bool // also at the limit: without a body the client cannot refuse the repeat
	}{
		{"with a body", func(*retry.Call, *retry.Config) {}, true, false},
		{"without a body", func(c *retry.Call, _ *retry.Config) { c.Body = nil }, true, true},
		{"key in a header that net/http does not know", func(_ *retry.Call, cfg *retry.Config) {
			cfg.Profile = &retry.Profile{KeyHeader: "Payment-Request-Id"}
		}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			overEach(t, func(t *testing.T, p protocol) {
				for _, limit := range []int{1, 2, 3} {
					failed, events := breakReused(t, p, limit, tt.change)
					first := 1
					if tt.repeats && p != http2 && (limit > 1 || tt.always) {
						first = 2
					}
					require.Equal(t, first, events.attempts[1].Deliveries)
					require.Equal(t, max(limit, first), failed.Attempts)
				}
			})
		})
	}
}

// Where the caller retries, net/http does not repeat a call over another connection either. A call
// without a body cannot be kept from that, but it is not retried afterwards.
func TestSend_netHTTPDoesNotRepeatWhereTheCallerRetries(t *testing.T) {
	t.Parallel()
	t.Run("with a body", func(t *testing.T) { t.Parallel(); repeatTogether(t, 8, 1, post("")) })
	t.Run("without a body", func(t *testing.T) {
		t.Parallel()
		call := post("")
		call.Body = nil
		repeatTogether(t, 1, 2, call)
	})
}

// repeatTogether makes so many calls at once over connections that were used before and break when
// the request was read, and looks how often each of them is delivered.
func repeatTogether(t *testing.T, calls, deliveries int, call retry.Call) {
	t.Helper()
	var hits atomic.Int32
	var warm sync.WaitGroup // until each call has a connection
	warm.Add(calls)
	srv, cfg := serve(t, plain, func(_ http.ResponseWriter, r *http.Request) {
		drain(r)
		if r.URL.Path == "/warm" {
			warm.Done()
			warm.Wait()
			return
		}
		hits.Add(1)
		hangUp(r)
	})
	c := newClient(t, cfg)
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if _, err := c.Send(t.Context(), post(srv.URL+"/warm")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	call.URL = srv.URL
	for range calls {
		all.Go(func() {
			if _, err := c.Send(callerRetries(t.Context()), call); err == nil {
				t.Error("succeeded")
			}
		})
	}
	all.Wait()
	require.EqualValues(t, calls*deliveries, hits.Load())
}

// breakReused makes the call over a connection that was used before and breaks,
// as every one after it does, when the request was read.
func breakReused(t *testing.T, p protocol, limit int, change func(*retry.Call, *retry.Config)) (*retry.Error, *recorder) {
	t.Helper()
	var hits atomic.Int32
	srv, cfg := serve(t, p, func(_ http.ResponseWriter, r *http.Request) {
		drain(r)
		if r.URL.Path != "/warm" {
			hits.Add(1)
			hangUp(r)
		}
	})
	events := &recorder{}
	cfg.MaxAttempts, cfg.Observer = limit, events
	call := post(srv.URL)
	change(&call, &cfg)
	client := newClient(t, cfg)
	_, err := client.Send(t.Context(), post(srv.URL+"/warm"))
	require.NoError(t, err)
	failed := failure(t, client, call)
	require.Equal(t, retry.Unknown, failed.Outcome)
	require.EqualValues(t, hits.Load(), failed.Attempts, "attempts are deliveries")
	return failed, events
}

func TestSend_countsARepeatThatSucceeds(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		var hits atomic.Int32
		srv, cfg := serve(t, p, func(_ http.ResponseWriter, r *http.Request) {
			drain(r)
			if hits.Add(1) == 2 {
				hangUp(r)
			}
		})
		client := newClient(t, cfg)
		_, err := client.Send(t.Context(), post(srv.URL)) // leaves a connection to reuse
		require.NoError(t, err)
		resp, err := client.Send(t.Context(), post(srv.URL))
		require.NoError(t, err)
		require.EqualValues(t, hits.Load()-1, resp.Attempts)
		require.Equal(t, 2, resp.Attempts)
	})
}

// An HTTP/2 server that refuses the stream has done nothing with it.
func TestSend_refusedStreamIsNotSent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code uint32
		want retry.Outcome
	}{{7, retry.NotSent}, {2, retry.Unknown}} {
		failed := failure(t, newClient(t, over(script(fails(refused{tt.code})))), post(stubURL))
		require.Equal(t, tt.want, failed.Outcome)
	}
}

// An untracedTransport calls no httptrace hooks, as transports of other libraries and of HTTP/3 do.
type untracedTransport struct{ base http.RoundTripper }

func (u untracedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.Background()) // without the values: no hooks
	context.AfterFunc(req.Context(), cancel)
	return u.base.RoundTrip(req.WithContext(ctx))
}

type breakingOff struct{ io.Reader }

func (b breakingOff) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = errBroken
	}
	return n, err
}

// Megabytes of a body are sent, and then it breaks off or turns out to be another one. The callee may have used
// the bytes that it got, whether the transport shows connections or not. If nothing of a body could be read, it was not
// sent.
func TestSend_bodyFailsUnderWay(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	data := bytes.Repeat([]byte("x"), size)
	whole := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	for _, tt := range []struct {
		name string
		then func() (io.ReadCloser, error)
		want retry.Outcome
	}{
		{"breaks off", func() (io.ReadCloser, error) { return io.NopCloser(breakingOff{bytes.NewReader(data[:size-100])}), nil }, retry.Unknown},
		{"is shorter", func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data[:size-100])), nil }, retry.Unknown},
		{"is longer", func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(append(bytes.Clone(data), 'x'))), nil
		}, retry.Unknown},
		{"is another", func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(bytes.Repeat([]byte("y"), size))), nil
		}, retry.Unknown},
		{"cannot be read", func() (io.ReadCloser, error) { return io.NopCloser(breakingOff{bytes.NewReader(nil)}), nil }, retry.NotSent},
		{"cannot be opened", func() (io.ReadCloser, error) { return nil, errBroken }, retry.NotSent},
	} {
		for _, traced := range []bool{true, false} {
			srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
			transport := http.RoundTripper(retry.NewTransport())
			if !traced {
				transport = untracedTransport{transport}
			}
			opened := 0
			stream, err := retry.NewStream(func() (io.ReadCloser, error) {
				if opened++; opened == 1 {
					return whole()
				}
				return tt.then()
			})
			require.NoError(t, err)
			call := post(srv.URL)
			call.Body, call.Stream = nil, stream
			_, err = newClient(t, retry.Config{Transport: transport, MaxAttempts: 1}).Send(t.Context(), call)
			var failed *retry.Error
			require.ErrorAs(t, err, &failed)
			if traced && tt.want == retry.NotSent { // there is a connection, and its header may have left
				require.Contains(t, []retry.Outcome{retry.NotSent, retry.Unknown}, failed.Outcome, tt.name)
			} else {
				require.Equal(t, tt.want, failed.Outcome, "%s, traced %v: %v", tt.name, traced, err)
			}
			srv.Close()
		}
	}
}

// In a rerun an earlier run may have made a call that now cannot even be read.
func TestDo_unreadBodyInARerun(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		ctx, cancel := context.WithTimeout(wire.NewContext(t.Context(), wire.Inbound{Rerun: true}), 10*time.Millisecond)
		body, end := io.Pipe()
		req, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1:1/", body)
		require.NoError(t, err)
		req.Header.Set(wire.HeaderKey, "k")
		_, err = newClient(t, retry.Config{}).Do(req) //nolint:bodyclose // there is none
		want := retry.ErrUnknown
		if method == http.MethodGet {
			want = retry.ErrNotSent
		}
		require.ErrorIs(t, err, want, method)
		require.NoError(t, end.Close())
		cancel()
	}
}
