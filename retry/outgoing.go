package retry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/fanonce/fanonce/childkey/wire"
)

// request returns the request that go-retryablehttp repeats: what is the same
// for all attempts, without the client's own headers.
func (f *frozen) request(ctx context.Context) *http.Request {
	return (&http.Request{
		Method: f.method, URL: f.url, Host: f.host, Header: f.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
}

// outgoing returns the request of one hop of one attempt: a copy with the
// client's headers and the frozen body, as Prepare leaves it.
func (x *exchange) outgoing(ctx context.Context, req *http.Request) (*http.Request, error) {
	if x.attempt.Number > 1 && sha256.Sum256(x.frozen.body) != x.frozen.sum {
		return nil, fmt.Errorf("%w: body", ErrPayloadChanged) // a transport wrote into what it was to read
	}
	out := req.WithContext(ctx)
	u := *req.URL // WithContext shares it, and transports have been seen to rewrite it
	out.URL, out.Header = &u, req.Header.Clone()
	for _, h := range x.frozen.fixed {
		out.Header[h.name] = []string{h.value}
	}
	out.Header[wire.HeaderRetryAttempt] = []string{wire.FormatRetryAttempt(x.attempt.Number)}
	out.Header[wire.HeaderRetryAllowance] = []string{wire.FormatRetryAllowance(x.attempt.Allowance)}
	out.Header[wire.HeaderRequestTimeout] = []string{wire.FormatRequestTimeout(x.attempt.Timeout - x.cfg.TimeoutMargin)}
	x.setBody(out)
	if x.cfg.Prepare != nil {
		if err := x.prepare(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// setBody gives out a reader of the frozen bytes, and net/http a way to begin
// again: without one it could not even repeat what was never written.
func (x *exchange) setBody(out *http.Request) {
	body := x.frozen.body
	out.ContentLength = int64(len(body))
	if len(body) == 0 {
		out.Body, out.GetBody = nil, nil
		return
	}
	out.Body = io.NopCloser(bytes.NewReader(body))
	// net/http repeats at once, without backoff, and every delivery counts.
	seen, left := x.seen, x.limit-x.retries-x.repeats
	out.GetBody = func() (io.ReadCloser, error) {
		if written := int(seen.written.Load()); written > 0 && written >= left {
			return nil, errNoRepeat
		}
		return io.NopCloser(bytes.NewReader(body)), nil
	}
}

var errNoRepeat = errors.New("retry: the connection failed, and no delivery is left to repeat the request by")
