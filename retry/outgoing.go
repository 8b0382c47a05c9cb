package retry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// outgoing returns the request of one hop of one attempt: a copy with the
// frozen headers and the frozen body, as Prepare leaves it.
func (x *exchange) outgoing(ctx context.Context, req *http.Request) (*http.Request, error) {
	if x.attempt.Number > 1 {
		if err := x.frozen.body.unchanged(ctx); err != nil {
			return nil, err
		}
	}
	out := &x.hop.request
	*out = *req.WithContext(ctx)
	x.hop.url = *req.URL // WithContext shares it, and transports have been seen to rewrite it
	added := req.Header
	if !x.follow {
		added = nil // a transport adds nothing to a request that it was given
	}
	out.URL, out.Header, out.Close = &x.hop.url, x.header(added), x.frozen.close
	fill(&out.Host, out.URL.Host)
	if err := x.setBody(out, &x.hop.body); err != nil {
		return nil, err
	}
	if x.client.cfg.Prepare != nil {
		if err := x.prepare(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// usualOwn is how many headers of an attempt are the client's own: the key and the
// attempt's three. A few more find room, where there are any.
const usualOwn = 4

// header returns the frozen headers, copied, with the attempt's and what
// net/http added, where the caller has none: Referer, and Authorization of a URL
// with a user.
func (x *exchange) header(added http.Header) http.Header {
	f, c := &x.frozen, x.frozen.carrier
	header := make(http.Header, len(added)+len(f.header)+usualOwn)
	for _, l := range f.header {
		header[l.name] = append(header[l.name], l.values...)
	}
	for name, values := range added {
		if _, given := header[name]; !given {
			header[name] = slices.Clone(values)
		}
	}
	values := x.hop.values[:0] // one array for all
	set := func(name, value string) {
		if value == "" {
			return
		}
		values = append(values, value)
		header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set(c.keyHeader, f.key)
	set(wire.HeaderCancels, f.cancels)
	set(wire.HeaderFirstSent, f.firstSent)
	if c.attempt {
		set(wire.HeaderRetryAttempt, wire.FormatRetryAttempt(x.attempt.Number))
	}
	if c.allowance {
		set(wire.HeaderRetryAllowance, wire.FormatRetryAllowance(x.attempt.Allowance))
	}
	if c.timeout {
		set(wire.HeaderRequestTimeout, x.client.requestTimeout(x.attempt.Timeout))
	}
	return header
}

// requestTimeout is what the callee is told of an attempt that has timeout left.
func (c *Client) requestTimeout(timeout time.Duration) string {
	if timeout == c.cfg.AttemptTimeout { // nearly always
		return c.wholeAttempt
	}
	return wire.FormatRequestTimeout(timeout - c.cfg.TimeoutMargin)
}

// setBody gives out a reader of the frozen body, which is r if that is in memory,
// and net/http a way to begin again: without one it could not even repeat what
// was never written.
func (x *exchange) setBody(out *http.Request, r *bytes.Reader) error {
	body := x.frozen.body // a copy, which GetBody keeps: the transport may hold that
	out.Body, out.GetBody, out.ContentLength = nil, nil, body.size()
	if out.ContentLength == 0 {
		return nil
	}
	var err error
	if out.Body, err = body.reader(r); err != nil {
		return err
	}
	// net/http repeats at once, without backoff, and every delivery counts.
	seen, attempts := &x.hop.seen, x.client.cfg.MaxAttempts-x.retries-x.repeats
	left, each := x.left, x.spent
	out.GetBody = func() (io.ReadCloser, error) {
		if written := seen.delivered(); written > 0 { // else nothing was delivered
			if written >= attempts || !left.Take(each) {
				return nil, errNoRepeat
			}
			seen.reserved.Add(1)
		}
		return body.reader(new(bytes.Reader))
	}
	return nil
}

var errNoRepeat = errors.New("retry: the connection failed, and no delivery is left to repeat the request by")
