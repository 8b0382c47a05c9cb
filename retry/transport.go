package retry

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
)

// An attemptTransport makes the attempts of calls: an attempt ends with the
// last byte of its answer, so the answer is read here. It has no
// CloseIdleConnections: go-retryablehttp would call it after every call that
// failed, and empty the pool for all the others.
type attemptTransport struct{}

func (attemptTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	if req.Response == nil { // else a redirect led here, within the attempt
		x.begin()
		x.repeats, x.reserved = 0, 0
	}
	resp, err := x.sendHop(req)
	if err != nil {
		x.answer, x.failed = nil, err
		return nil, err
	}
	return resp, nil
}

// A hop is one request of an attempt: its first, or where a redirect led. It
// shares nothing with the next, nor with the exchange, since a transport may still hold
// it then.
type hop struct {
	ctx     hopContext
	seen    evidence
	request http.Request
	url     url.URL
	values  [usualOwn]string // of the client's headers
	body    bytes.Reader     // of the first to read a body that is in memory
	answer  answer
}

// newHop returns a hop of the attempt under way.
func (r *run) newHop() *hop {
	ends, cause := r.attemptEnd()
	h := &hop{ctx: hopContext{parent: r.attempting, ends: ends, cause: cause}}
	h.ctx.seen = &h.seen
	return h
}

// sendHop sends one request of the attempt and reads its answer.
func (x *exchange) sendHop(req *http.Request) (*http.Response, error) {
	x.answer, x.failed, x.hop = nil, nil, x.newHop()
	ctx := &x.hop.ctx
	defer ctx.end()
	out, err := x.outgoing(ctx, req)
	if err != nil {
		return nil, err
	}
	resp, err := x.client.cfg.Transport.RoundTrip(out)
	x.repeats += x.hop.seen.deliveries(resp) - 1
	x.reserved += int(x.hop.seen.reserved.Load())
	switch {
	case err != nil && resp != nil && resp.Body != nil: // against the contract of RoundTripper
		_ = resp.Body.Close()
		return nil, blame(ctx, err)
	case err != nil:
		return nil, blame(ctx, err)
	case resp == nil:
		return nil, errNoResponse
	}
	a := &x.hop.answer
	if err := a.read(resp, x.client.cfg.MaxResponseBytes, x.standard); err != nil {
		return nil, blame(ctx, err)
	}
	a.replayed, a.honoured = x.frozen.carrier.marker(a.header)
	x.answer, x.last = a, a
	resp.Body = http.NoBody
	return resp, nil
}

var errNoResponse = errors.New("retry: the transport returned neither answer nor error")

// blame adds to err that the attempt's time was up, where a transport reports
// something else then.
func blame(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return &blamed{cause, err}
}

// A blamed is err, of which cause was the reason.
type blamed struct{ cause, err error }

func (b *blamed) Error() string   { return b.cause.Error() + ": " + b.err.Error() }
func (b *blamed) Unwrap() []error { return []error{b.cause, b.err} }
