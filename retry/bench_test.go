package retry_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// The stub's work is the same for every row: a POST of 256 bytes is answered
// with 64 bytes.
var benchBody = bytes.Repeat([]byte("x"), 256)

// benchTransport asks of the request's context what net/http's transport asks.
var benchTransport = roundTrip(func(req *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil {
		trace.GetConn(req.URL.Host)
		trace.GotConn(httptrace.GotConnInfo{})
		trace.WroteHeaders()
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	default:
	}
	io.Copy(io.Discard, req.Body)
	req.Body.Close()
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: 64, Request: req,
		Body: io.NopCloser(strings.NewReader("0123456789012345678901234567890123456789012345678901234567890123")),
	}, nil
})

// benchSend makes a call that succeeds at once.
func benchSend(tb testing.TB) func() {
	c := newClient(tb, retry.Config{Transport: benchTransport, Profile: retry.Unguarded()})
	call := post(stubURL)
	call.Body = benchBody
	return func() {
		_, err := c.Send(context.Background(), call)
		require.NoError(tb, err)
	}
}

// benchRequest has do send the same as an *http.Request, with the key unless it is "".
func benchRequest(tb testing.TB, key string, do func(*http.Request) (*http.Response, error)) func() {
	return func() {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, stubURL, bytes.NewReader(benchBody))
		require.NoError(tb, err)
		if key != "" {
			req.Header["Idempotency-Key"] = []string{key}
		}
		resp, err := do(req)
		require.NoError(tb, err)
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

func benchDo(tb testing.TB) func() {
	return benchRequest(tb, "k-1", newClient(tb, retry.Config{Transport: benchTransport}).Do)
}

// benchPass passes through the client without a key.
func benchPass(tb testing.TB) func() {
	return benchRequest(tb, "", newClient(tb, retry.Config{Transport: benchTransport}).RoundTripper().RoundTrip)
}

func repeat(b *testing.B, do func()) {
	b.ReportAllocs()
	for b.Loop() {
		do()
	}
}

func BenchmarkClient_Send(b *testing.B)         { repeat(b, benchSend(b)) }
func BenchmarkClient_Do(b *testing.B)           { repeat(b, benchDo(b)) }
func BenchmarkClient_RoundTripper(b *testing.B) { repeat(b, benchPass(b)) }

// BenchmarkRetryableHTTP is the same request with go-retryablehttp alone.
func BenchmarkRetryableHTTP(b *testing.B) {
	c := retryablehttp.NewClient()
	c.Logger, c.HTTPClient = nil, &http.Client{Transport: benchTransport}
	repeat(b, func() {
		req, err := retryablehttp.NewRequestWithContext(b.Context(), http.MethodPost, stubURL, benchBody)
		require.NoError(b, err)
		resp, err := c.Do(req)
		require.NoError(b, err)
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	})
}

// BenchmarkNetHTTP is the same request with net/http alone.
func BenchmarkNetHTTP(b *testing.B) {
	repeat(b, benchRequest(b, "", (&http.Client{Transport: benchTransport}).Do))
}

// Not parallel: AllocsPerRun counts what the whole process allocates.
func TestClient_allocations(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func()
		want float64
	}{
		{"Send", benchSend(t), 44},
		{"Do", benchDo(t), 58},
		{"RoundTripper, without a key", benchPass(t), 22},
	} {
		if got := testing.AllocsPerRun(100, tt.do); got > tt.want {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, got, tt.want)
		}
	}
}
