package retry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// Do makes the call that req is, for code that has an *http.Request. Its key is the
// request's Idempotency-Key, quoted or bare, or the key in [Profile.KeyHeader]; without
// one the call is un-keyed. A key that childkey.Parse refuses is an [ErrInvalid].
//
// [Config.Profile] says which headers leave, and what is sent without a Profile.
//
// The service of the call, in events, errors and the budget, is the host of its URL.
// The body is read into memory first, but for one of more than a mebibyte that
// req.GetBody opens anew (see [Stream]); it is always closed. Do stops reading when the
// ctx of req ends. req is not changed.
//
// As with http.Client, every complete answer that ends the call is a response without an
// error, whatever its status; its body is in memory. Where there is none, or only answers
// that were to be retried, or a 2xx of more than [Config.MaxResponseBytes] or with
// [ErrUnmarked], the error is an [*Error]. If another answer is longer, its body ends with an [*Error] that wraps
// [ErrResponseTooLarge]. [Client.Send] says more of an answer that is not 2xx.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	e, err := c.exchangeRequest(req, nil, true)
	if err != nil {
		return nil, err
	}
	if e.err != nil && (e.answer == nil || e.answer.tooLong() || e.err.Retryable) {
		return nil, e.err
	}
	return e.answer.toResponse(req, e.err), nil
}

// RoundTripper returns the client as the transport of an http.Client, which then
// follows redirects itself. The key and the header of a request are as for [Client.Do].
//
// A request without Idempotency-Key passes through as [Config.Transport] sends it, and the
// answer is the transport's own: event streams, large downloads, trailers and upgrades work
// as they do without the client. Only the request's ctx bounds its time. The client repeats
// it, within MaxAttempts, Timeout and Budget, in two cases:
//
//   - No answer came, and the method is safe (GET, HEAD, OPTIONS, TRACE) or nothing was sent.
//   - The answer is 421, 425 or 429, or has a code by which nothing was done.
//
// In both cases a body must be one that GetBody opens anew. All other answers are returned,
// also a 503 to a GET. [Client.Do] repeats such a request.
//
// A request with a key has its answer in memory, as from [Client.Do]. A trailer or
// an Upgrade in it is refused ([ErrInvalid]). It goes to no other origin than the one that it
// was made for: of a redirect that leads elsewhere the error is [ErrInvalid].
//
// The round tripper keeps the contract of [http.RoundTripper]: the error is nil if the last
// attempt had an answer, also where attempts or time ran out. If the ctx of a request without
// a key ends in the wait after an answer, the error says so. Under a key the body of an answer
// that is longer than [Config.MaxResponseBytes] ends with an [*Error] that wraps
// [ErrResponseTooLarge]. Every error is an [*Error]. Where there is an answer, only observers
// and the callee's header tell what is known of the effect; [Client.Do] and [Client.Send] do.
//
// The round tripper has the method CloseIdleConnections, which [http.Client] calls. It
// closes those of [Config.Transport], if that has the method.
func (c *Client) RoundTripper() http.RoundTripper { return roundTripper{c} }

type roundTripper struct{ client *Client }

func (t roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if req != nil && !t.client.made().carrier.present(req.Header) {
		return t.client.pass(req)
	}
	resp, failed := t.client.Exchange(req, nil)
	if resp == nil {
		return nil, failed
	}
	return resp, nil
}

func (t roundTripper) CloseIdleConnections() {
	if transport, ok := t.client.made().cfg.Transport.(interface{ CloseIdleConnections() }); ok {
		transport.CloseIdleConnections()
	}
}

// exchangeRequest makes the call that req is, as name leaves it; a nil name changes nothing.
// The error says why nothing was sent. If the ctx of req ended while its body was read, the
// call can end better later.
func (c *Client) exchangeRequest(req *http.Request, name func(*Call) error, follow bool) (*exchange, *Error) {
	if req == nil {
		return nil, c.Refuse(context.Background(), Task{}, fmt.Errorf("%w: no request", ErrInvalid))
	}
	call, err := c.made().callOf(req)
	if err == nil && name != nil {
		err = name(&call)
	}
	if err == nil {
		err = call.checkOrigin(req)
	}
	if err != nil {
		task := call.task()
		task.Resumed = task.Resumed || isRerun(req.Context()) && !isSafe(call.Method)
		failed := c.Refuse(req.Context(), task, err)
		failed.Retryable = req.Context().Err() != nil && !errors.Is(err, ErrInvalid)
		return nil, failed
	}
	return c.exchange(req.Context(), &call, follow), nil
}

// callOf reads req as a Call, and closes its body.
func (c *Client) callOf(req *http.Request) (Call, error) {
	call := Call{Method: req.Method, Header: req.Header, owned: true, url: req.URL, close: req.Close}
	call.Resumed = req.Response != nil // a redirect led here: somebody had the request before
	fill(&call.Method, http.MethodGet)
	if req.URL != nil { // without one, freeze refuses the call
		call.Service = req.URL.Host
	}
	if req.Host != call.Service { // else net/http would copy the URL for it
		call.host = req.Host
	}
	if err := call.takeHeader(req, &c.carrier); err != nil {
		closeBody(req)
		return call, err
	}
	return call, call.takeBody(req.Context(), req, c.carrier.bodyField == "")
}

// takeHeader takes over the headers that belong to the client.
func (c *Call) takeHeader(req *http.Request, carrier *carrier) (err error) {
	if len(req.Trailer) > 0 {
		return fmt.Errorf("%w: a request with a trailer", ErrInvalid)
	}
	own := carrier.lines(req.Header)
	if c.Key, err = carrier.key(own); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	c.given = c.Key
	if c.Cancels, _, err = wire.ParseKeyHeader(own.cancels); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if c.FirstSent, _, err = wire.ParseFirstSent(own.firstSent); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// checkOrigin keeps a key from following a redirect, as an http.Client does that the
// client is the transport of, to somebody who was not meant to have it.
func (c *Call) checkOrigin(req *http.Request) error {
	for from := req.Response; from != nil && from.Request != nil; from = from.Request.Response {
		if from.Request.URL != nil && req.URL != nil && !isSameOrigin(req.URL, from.Request.URL) &&
			(!c.Key.IsZero() || !c.Cancels.IsZero()) {
			return fmt.Errorf("%w: a redirect of a request with a key leads to another origin", ErrInvalid)
		}
	}
	return nil
}

// toResponse returns the answer as net/http's response to req. If the answer was cut off, its
// body ends with failed, the error of the call.
func (a *answer) toResponse(req *http.Request, failed *Error) *http.Response {
	resp := *a.raw
	resp.Request = req
	if a.cut {
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(a.Body), failingReader{failed.tooLarge()}))
		return &resp
	}
	resp.Body = io.NopCloser(bytes.NewReader(a.Body))
	if req.Method != http.MethodHead {
		resp.ContentLength = int64(len(a.Body))
	}
	return &resp
}

// tooLarge returns e as the error that follows the part of a body that was read.
func (e *Error) tooLarge() *Error {
	if errors.Is(e.Err, ErrResponseTooLarge) {
		return e
	}
	failed := *e
	failed.Err = fmt.Errorf("%w: %w", ErrResponseTooLarge, e.Err)
	return &failed
}

// A failingReader fails.
type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// Exchange makes the call that req is, and has name say which call that is. It is for
// transports that give requests keys; sdk.Client.RoundTripper is one.
//
// name is called once, after the body of req was read and before anything is sent. It gets
// the call as [Client.Do] reads it from req, and may set its Service, Operation, Key,
// Cancels, FirstSent, Resumed, Expires, Limits and Header. It must replace the Header instead of
// writing into it, and leave the other fields alone. Its error ends the call as NotSent, or
// as Unknown if the call is Resumed by then. A nil name changes nothing. Without
// [Config.Profile] only the Key and the Header that name sets are sent.
//
// Exchange returns the last complete answer, and what [Client.Send] would return as the
// error. So it returns both after an answer that is not 2xx. The response is nil if there was
// no answer, and the error is nil after a 2xx. Compare the error with nil before it becomes
// an error: a nil *Error in one is not nil. Exchange follows no redirects. It closes the body of
// req, and blocks as Do does.
func (c *Client) Exchange(req *http.Request, name func(*Call) error) (*http.Response, *Error) {
	e, err := c.exchangeRequest(req, name, false)
	switch {
	case err != nil:
		return nil, err
	case e.answer == nil:
		return nil, e.err
	}
	return e.answer.toResponse(req, e.err), e.err
}

// ownLines are the lines of a request's header that the client reads, in whatever spellings
// their names are there.
type ownLines struct {
	key       []string // of Idempotency-Key
	service   []string // of the service's own header for keys, if that is another
	cancels   []string
	firstSent []string
}

// lines finds the lines in one pass over the header.
func (c *carrier) lines(header http.Header) (own ownLines) {
	for name, values := range header {
		switch {
		case isSameName(name, wire.HeaderKey):
			own.key = join(own.key, values)
		case isSameName(name, wire.HeaderCancels):
			own.cancels = join(own.cancels, values)
		case isSameName(name, wire.HeaderFirstSent):
			own.firstSent = join(own.firstSent, values)
		case isSameName(name, c.keyHeader):
			own.service = join(own.service, values)
		}
	}
	return own
}

func isSameName(name, canonical string) bool {
	return len(name) == len(canonical) && strings.EqualFold(name, canonical)
}

// join copies only if there are two spellings.
func join(lines, more []string) []string {
	if len(lines) == 0 {
		return more
	}
	return append(slices.Clip(lines), more...)
}

// key returns the key of a request: from the service's own header, or from Idempotency-Key.
// The zero Key means that there is none.
func (c *carrier) key(own ownLines) (childkey.Key, error) {
	key, _, err := wire.ParseKeyHeader(own.key)
	if err != nil || len(own.service) == 0 {
		return key, err
	}
	theirs, _, err := wire.ParseKeyHeader(own.service)
	if err == nil && !key.IsZero() && key != theirs {
		err = fmt.Errorf("%s and %s have different keys", wire.HeaderKey, c.keyHeader)
	}
	return theirs, err
}

// present reports whether a request with the header is under a key, or cancels one.
func (c *carrier) present(header http.Header) bool {
	own := c.lines(header)
	return len(own.key) > 0 || len(own.service) > 0 || len(own.cancels) > 0
}
