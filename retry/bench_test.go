package retry_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/fanonce/fanonce/retry"
)

// The stub's work is the same for every row: a POST of 256 bytes is answered
// with 64 bytes.
var benchBody = bytes.Repeat([]byte("x"), 256)

var benchTransport = roundTrip(func(req *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, req.Body)
	req.Body.Close()
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: 64, Request: req,
		Body: io.NopCloser(strings.NewReader("0123456789012345678901234567890123456789012345678901234567890123")),
	}, nil
})

// BenchmarkClient_Send is what the client adds to a request that succeeds at once.
func BenchmarkClient_Send(b *testing.B) {
	c := newClient(b, retry.Config{Transport: benchTransport, Profile: retry.Fanonce()})
	call := post(stubURL)
	call.Body = benchBody
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Send(b.Context(), call); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkClient_Do is the same for code that has an http.Request with a key.
func BenchmarkClient_Do(b *testing.B) {
	c := newClient(b, retry.Config{Transport: benchTransport})
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, stubURL, bytes.NewReader(benchBody))
		if err != nil {
			b.Fatal(err)
		}
		req.Header["Idempotency-Key"] = []string{"k-1"}
		resp, err := c.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// BenchmarkClient_RoundTripper is what the client adds to a request that passes through.
func BenchmarkClient_RoundTripper(b *testing.B) {
	rt := newClient(b, retry.Config{Transport: benchTransport}).RoundTripper()
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, stubURL, bytes.NewReader(benchBody))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// BenchmarkRetryableHTTP is the same request with go-retryablehttp alone.
func BenchmarkRetryableHTTP(b *testing.B) {
	c := retryablehttp.NewClient()
	c.Logger, c.HTTPClient = nil, &http.Client{Transport: benchTransport}
	b.ReportAllocs()
	for b.Loop() {
		req, err := retryablehttp.NewRequestWithContext(b.Context(), http.MethodPost, stubURL, benchBody)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// BenchmarkNetHTTP is the same request with net/http alone.
func BenchmarkNetHTTP(b *testing.B) {
	c := &http.Client{Transport: benchTransport}
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, stubURL, bytes.NewReader(benchBody))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
