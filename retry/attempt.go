package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// An attemptTransport makes the attempts of calls: an attempt ends with the last byte of
// its answer, so the answer is read here. It does not offer CloseIdleConnections:
// go-retryablehttp would call it after every call that failed, and empty the pool for all
// the others.
type attemptTransport struct{}

func (attemptTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	e := exchangeOf(req.Context())
	if req.Response == nil { // else a redirect led here, within the attempt
		e.begin()
		e.repeats = 0
	}
	resp, err := e.sendHop(req)
	e.failed = err
	return resp, err
}

// sendHop sends one request of the attempt, which is its first or where a redirect led, and
// reads its answer. Nothing that it makes for the request serves another one, since a
// transport may still hold a request when the next one is sent.
func (e *exchange) sendHop(req *http.Request) (*http.Response, error) {
	if req.Response != nil && e.answer != nil { // the call reached a service before this hop
		e.tally.add(e.verdict())
	}
	e.answer, e.seen = nil, new(evidence)
	ctx, cancel := e.limitHop()
	defer func() { cancel() }()
	out, err := e.outgoing(ctx, req)
	if err != nil {
		return nil, err
	}
	if waited, err := e.awaitPause(out); waited { // the attempt begins now
		closeBody(out)
		if err != nil {
			return nil, err
		}
		cancel()
		e.begun = time.Now()
		e.attempt.Timeout = e.attemptTimeout()
		ctx, cancel = e.limitHop()
		if out, err = e.outgoing(ctx, req); err != nil {
			return nil, err
		}
	}
	e.sent = out
	resp, err := e.roundTrip(out)
	deliveries := e.seen.deliveries(resp)
	e.repeats += deliveries - 1
	e.noteRepeats(resp, deliveries)
	a := &answer{Answer: Answer{Keyed: !e.task.Key.IsZero(), conflict: e.frozen.carrier.profile.Conflict}}
	if err == nil {
		err = a.read(resp, e.client.cfg.MaxResponseBytes, e.whole)
	}
	if err != nil {
		return nil, e.blame(ctx, err)
	}
	a.Replayed, a.Honoured = e.frozen.carrier.replayed(a.Header)
	a.unmarked = e.frozen.carrier.profile.MarksAnswers && e.isKeyed() && !a.Honoured && a.code == ""
	e.answer, e.last = a, a
	resp.Body = http.NoBody
	return resp, nil
}

// limitHop returns the ctx of one request. It ends with the attempt, and earlier if the request goes
// over a connection that was used before.
func (e *exchange) limitHop() (context.Context, context.CancelFunc) {
	ctx, cancel := e.limitAttempt(e.seen.trace(e.attempting))
	short := e.reuseTimeout()
	if short >= e.attempt.Timeout {
		return ctx, cancel
	}
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(time.Hour, func() { end(ErrAttemptTimeout) })
	timer.Stop()
	e.seen.connected = func(reused bool) {
		if timer.Stop(); reused {
			timer.Reset(time.Until(e.begun.Add(short)))
		}
	}
	return ctx, func() {
		timer.Stop()
		end(nil)
		cancel()
	}
}

// isKeyed reports whether the call asks for an effect under a key, so that a guard would have
// marked the answer of its handler.
func (e *exchange) isKeyed() bool { return !e.task.Key.IsZero() && !e.reads }

// roundTrip sends out, and returns either an answer or an error, also for a transport that
// breaks the contract of http.RoundTripper.
func (r *run) roundTrip(out *http.Request) (*http.Response, error) {
	resp, err := r.client.cfg.Transport.RoundTrip(out)
	switch {
	case err != nil && resp != nil && resp.Body != nil:
		_ = resp.Body.Close()
		return nil, err
	case err != nil:
		return nil, err
	case resp == nil:
		return nil, errNoResponse
	}
	return resp, nil
}

var errNoResponse = errors.New("retry: the transport returned neither answer nor error")

// outgoing returns the request of one hop of one attempt: a copy with the
// frozen headers and the frozen body, as Prepare leaves it.
func (e *exchange) outgoing(ctx context.Context, req *http.Request) (*http.Request, error) {
	if e.attempt.Number > 1 {
		if err := e.frozen.body.checkUnchanged(ctx); err != nil {
			return nil, err
		}
	}
	out := req.WithContext(ctx)
	u := *req.URL // WithContext shares it, and transports have been seen to rewrite it
	added := req.Header
	if !e.follow {
		added = nil // a transport adds nothing to a request that it was given
	}
	out.URL, out.Header, out.Close = &u, e.header(added), e.frozen.close
	fill(&out.Host, out.URL.Host)
	if e.client.cfg.Prepare != nil {
		if err := e.prepareHeader(out); err != nil {
			return nil, err
		}
	}
	return out, e.setBody(out)
}

// prepareHeader lets Config.Prepare set headers, and checks those that it has set.
func (e *exchange) prepareHeader(out *http.Request) error {
	body := e.frozen.body
	var open func() (io.ReadCloser, error)
	if out.ContentLength = body.size(); out.ContentLength > 0 {
		open = body.reader
	}
	header, err := e.prepare(out, open)
	if err != nil {
		return err
	}
	for name, values := range header {
		if err := checkHeader(name, values); err != nil {
			return &prepareError{err}
		}
	}
	out.Header = header
	return nil
}

// header returns the frozen headers, copied, with the attempt's and what
// net/http added, where the caller has none: Referer, and Authorization of a URL
// with a user.
func (e *exchange) header(added http.Header) http.Header {
	f, c := &e.frozen, e.frozen.carrier
	const most = 7 // of the client's own: the key, what it cancels, its time and parent, and the attempt's three
	header := make(http.Header, len(added)+len(f.header)+most)
	for name, values := range f.header {
		header[name] = slices.Clone(values)
	}
	for name, values := range added {
		if _, given := header[name]; !given {
			header[name] = slices.Clone(values)
		}
	}
	values := make([]string, 0, most) // one array for all of them
	set := func(name, value string) {
		if value != "" {
			values = append(values, value)
			header[name] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	set(c.keyHeader, f.key)
	set(wire.HeaderCancels, f.cancels)
	set(wire.HeaderFirstSent, f.firstSent)
	e.told().Set(e.begun, set)
	return header
}

// timeoutMargin is taken off the time that the callee is told it has, for the way back.
const timeoutMargin = 20 * time.Millisecond

// told returns what the callee is told of the attempt: the facts that the service has a
// header for.
func (e *exchange) told() wire.Inbound {
	var in wire.Inbound
	c := e.frozen.carrier
	if c.parent {
		in.Parent = e.parent
	}
	if c.attempt {
		in.Attempt = e.attempt.Number
	}
	if c.callerRetries {
		in.CallerRetries = e.attempt.CallerRetries
	}
	if c.timeout {
		in.Deadline = e.begun.Add(e.attempt.Timeout - timeoutMargin)
	}
	return in
}

// setBody sets a reader of the frozen body. It also lets net/http open the body again,
// because net/http could not even repeat a request that was never written.
func (e *exchange) setBody(out *http.Request) error {
	body := &e.frozen.body
	out.Body, out.GetBody, out.ContentLength = nil, nil, body.size()
	if out.ContentLength == 0 {
		return nil
	}
	var err error
	if out.Body, err = body.reader(); err != nil {
		return err
	}
	// net/http repeats at once, without backoff, and every delivery counts. When a service goes down, all of its kept
	// connections are dead, and a call would spend its attempts on them before anybody has noticed.
	seen, attempts := e.seen, min(e.limits.MaxAttempts-e.retries-e.repeats, maxDeliveries)
	if e.callerRetries && !e.polling {
		attempts = 1
	}
	out.GetBody = func() (io.ReadCloser, error) {
		if written := seen.countDelivered(); written > 0 && written >= attempts {
			return nil, errNoRepeat
		}
		return body.reader()
	}
	return nil
}

// maxDeliveries is how often net/http may deliver the request of one attempt.
const maxDeliveries = 3

var errNoRepeat = errors.New("retry: the connection failed, and no delivery is left to repeat the request by")

// A prepareError is the error of [Config.Prepare].
type prepareError struct{ err error }

func (e *prepareError) Error() string { return "retry: prepare: " + e.err.Error() }

func (e *prepareError) Unwrap() error { return e.err }

// prepare returns the header of out as [Config.Prepare] leaves it. The hook gets a copy of
// out, with a body that open opens; a nil open means that out is without a body.
func (r *run) prepare(out *http.Request, open func() (io.ReadCloser, error)) (http.Header, error) {
	draft, u := *out, *out.URL
	draft.URL, draft.Header = &u, out.Header.Clone()
	if draft.Header == nil {
		draft.Header = make(http.Header)
	}
	draft.Body, draft.GetBody = nil, nil
	var body *draftBody
	if open != nil {
		body = &draftBody{open: open}
		defer body.end()
		draft.Body, draft.GetBody = body, open
	}
	err := r.client.cfg.Prepare(r.attempt.Number, &draft)
	if given := draft.Body; given != nil && given != io.ReadCloser(body) {
		_ = given.Close() // the hook's own: it is not sent
	}
	switch {
	case err != nil:
		return nil, &prepareError{err}
	case draft.URL == nil || draft.URL.String() != out.URL.String() || draft.Method != out.Method || draft.Host != out.Host:
		return nil, fmt.Errorf("%w: Prepare changed the method or the URL; it may set headers only", ErrPayloadChanged)
	}
	return draft.Header, r.client.carrier.sameOwnHeaders(out.Header, draft.Header)
}

// sameOwnHeaders compares the headers that belong to the client, in whatever
// case they are spelled: a second spelling would be a second line on the wire.
func (c *carrier) sameOwnHeaders(given, got http.Header) error {
	count := 0
	for name, values := range got {
		if !c.owns(name) {
			continue
		}
		if !slices.Equal(values, given[name]) {
			return fmt.Errorf("%w: Prepare changed %s, which the client sets", ErrPayloadChanged, http.CanonicalHeaderKey(name))
		}
		count++
	}
	for name := range given {
		if c.owns(name) {
			count--
		}
	}
	if count != 0 {
		return fmt.Errorf("%w: Prepare removed a header that the client sets", ErrPayloadChanged)
	}
	return nil
}

// A draftBody is the body that the hook may read. It opens the body at the first Read: most
// hooks read none.
type draftBody struct {
	open func() (io.ReadCloser, error)
	body io.ReadCloser // nil: not opened
	err  error         // why it cannot be opened
}

func (b *draftBody) Read(p []byte) (int, error) {
	if b.body == nil && b.err == nil {
		b.body, b.err = b.open()
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.body.Read(p)
}

// Close does nothing: the body is closed when the hook returns.
func (*draftBody) Close() error { return nil }

func (b *draftBody) end() {
	if b.body != nil {
		_ = b.body.Close() // only read
	}
}
