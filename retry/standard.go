package retry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"

	"github.com/fanonce/fanonce/childkey/wire"
)

// Do makes the call that req is, for code that has an *http.Request. Its key is the
// request's Idempotency-Key, quoted or bare, or the key in [Profile.KeyHeader]; without
// one the call is un-keyed. A key that childkey.Parse refuses is an [ErrInvalid].
//
// Without [Config.Profile] the request leaves with the header that it came with. With one,
// its key is sent as the Profile says, and of this library's headers those that the Profile
// names.
//
// The service of the call, in events, errors and the budget, is the host of its URL.
// The body is read into memory first, but for one of more than a mebibyte that
// req.GetBody opens anew (see [Stream]); it is always closed. req is not
// changed.
//
// As with http.Client, every complete answer that ends the call is a response
// without an error, whatever its status; its body is in memory. Where there is none,
// or only answers that were to be retried, or a 2xx of more than
// [Config.MaxResponseBytes], the error is an [*Error]. Of another answer that is
// longer the body ends with [ErrResponseTooLarge] in place of io.EOF. [Client.Send]
// says more of an answer that is not 2xx.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	x, err := c.standard(req, true)
	if err != nil {
		return nil, err
	}
	defer x.release()
	if x.err != nil && (x.answer == nil || x.answer.tooLong() || x.err.Retryable) {
		return nil, x.err
	}
	return x.answer.standard(req), nil
}

// RoundTripper returns the client as the transport of an http.Client, which then
// follows redirects itself. The key and the header of a request are as for [Client.Do].
//
// A request with a key goes to no other origin than the one that it was made for: of a
// redirect that leads elsewhere the error is [ErrInvalid].
//
// It keeps the contract of [http.RoundTripper]: the error is nil if the last attempt
// had an answer, also where attempts or time ran out, and of a body that is too long
// reading it fails. So of such calls only observers and the callee's header tell what
// is known of the effect; [Client.Do] and [Client.Send] do.
func (c *Client) RoundTripper() http.RoundTripper { return roundTripper{c} }

type roundTripper struct{ client *Client }

func (t roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	x, err := t.client.standard(req, false)
	if err != nil {
		return nil, err
	}
	defer x.release()
	if x.answer == nil {
		return nil, x.err
	}
	return x.answer.standard(req), nil
}

// standard makes the call that req is. Its error is an *Error; without one, release the
// exchange.
func (c *Client) standard(req *http.Request, follow bool) (*exchange, error) {
	if req == nil {
		return nil, c.Refuse(context.Background(), Task{}, fmt.Errorf("%w: no request", ErrInvalid))
	}
	call, err := c.made().callOf(req)
	if err != nil {
		return nil, c.Refuse(req.Context(), Task{Service: call.Service, Key: call.Key, Resumed: call.Resumed}, err)
	}
	return c.exchange(req.Context(), &call, follow), nil
}

// callOf reads req as a Call, and closes its body.
func (c *Client) callOf(req *http.Request) (Call, error) {
	call := Call{Method: req.Method, Header: req.Header, owned: true, url: req.URL, host: req.Host}
	call.Resumed = req.Response != nil // a redirect led here: somebody had the request before
	fill(&call.Method, http.MethodGet)
	if req.URL != nil { // without one, freeze refuses the call
		call.Service = req.URL.Host
	}
	err := call.takeBody(req, c.carrier.bodyField == "")
	switch {
	case err != nil:
		return call, err
	case len(req.Trailer) > 0:
		return call, fmt.Errorf("%w: a request with a trailer", ErrInvalid)
	}
	if call.Key, err = c.carrier.key(req.Header); err != nil {
		return call, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	call.given = call.Key
	if call.Cancels, _, err = wire.ParseKeyHeader(linesOf(req.Header, wire.HeaderCancels)); err != nil {
		return call, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if call.FirstSent, _, err = wire.ParseFirstSent(linesOf(req.Header, wire.HeaderFirstSent)); err != nil {
		return call, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return call, call.checkOrigin(req)
}

// checkOrigin keeps a key from following a redirect, as an http.Client does that the
// client is the transport of, to somebody who was not meant to have it.
func (c *Call) checkOrigin(req *http.Request) error {
	for from := req.Response; from != nil && from.Request != nil; from = from.Request.Response {
		if from.Request.URL != nil && req.URL != nil && !sameOrigin(req.URL, from.Request.URL) &&
			(!c.Key.IsZero() || !c.Cancels.IsZero()) {
			return fmt.Errorf("%w: a redirect of a request with a key leads to another origin", ErrInvalid)
		}
	}
	return nil
}

// maxCopied is the length of the longest body that is copied although it could
// be opened anew.
const maxCopied = 1 << 20

// takeBody takes over req's body, and closes it. A long body becomes a Stream only if
// streams says so.
func (c *Call) takeBody(req *http.Request, streams bool) error {
	if req.Body == nil {
		return nil
	}
	var err error
	if streams && req.GetBody != nil && req.ContentLength > maxCopied {
		c.Stream, err = NewStream(req.GetBody)
	} else {
		c.Body, _, err = readBody(req.Body, req.ContentLength, math.MaxInt64)
	}
	if closeErr := req.Body.Close(); err == nil {
		err = closeErr
	}
	if err == nil && req.ContentLength > 0 && c.size() != req.ContentLength {
		err = fmt.Errorf("%w: body of %d bytes, announced as %d", ErrInvalid, c.size(), req.ContentLength)
	}
	if err != nil && !errors.Is(err, ErrInvalid) {
		err = fmt.Errorf("%w: body: %w", ErrInvalid, err)
	}
	return err
}

// size is the length of the body.
func (c *Call) size() int64 {
	if c.Stream != nil {
		return c.Stream.Size()
	}
	return int64(len(c.Body))
}

// standard returns the answer as net/http's response to req.
func (a *answer) standard(req *http.Request) *http.Response {
	resp := *a.raw
	resp.Request = req
	if a.cut {
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(a.body), tooLarge{}))
		return &resp
	}
	resp.Body = io.NopCloser(bytes.NewReader(a.body))
	if req.Method != http.MethodHead {
		resp.ContentLength = int64(len(a.body))
	}
	return &resp
}

// tooLarge is what follows the part of a body that was read.
type tooLarge struct{}

func (tooLarge) Read([]byte) (int, error) { return 0, ErrResponseTooLarge }
