package retry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A passage is one request without a key on its way through the client's round tripper.
// The transport gets the request as it is, and the caller gets the transport's answer:
// neither body is read here, and only the caller's ctx bounds the time.
//
// Another attempt follows in two cases, if the request's body can be read again. Either no
// answer came, and the method is safe or nothing was sent. Or the answer says that nothing
// was done (421, 425, 429).
type passage struct {
	run
	req    *http.Request
	out    *http.Request // of the attempt, as Prepare left it
	seen   *evidence     // of the attempt
	answer *answer       // of the attempt, without its body; nil: none
	last   *answer       // of the call
}

// pass makes the call that req is.
func (c *Client) pass(req *http.Request) (*http.Response, error) {
	p := &passage{req: req}
	p.enter(c)
	if p.client == unmade {
		closeBody(req)
		return nil, p.giveUp(nil, errUnmade)
	}
	if p.caller.Err() != nil {
		closeBody(req)
		p.retryable = true
		return nil, p.giveUp(nil, endOf(p.caller))
	}
	p.target = p.client.targetOf(p.req)
	for {
		resp, err := p.send()
		deliveries := p.seen.deliveries(resp)
		p.noteRepeats(resp, deliveries)
		v := p.verdict(resp, err)
		if resp != nil {
			p.notePause(p.out, resp.StatusCode, v)
		}
		if resp != nil && v.Outcome != Completed {
			err = p.answer.err()
		}
		wait, again, stop := p.end(v, deliveries, err)
		p.observeAttempt(v, deliveries, wait, p.answer, err)
		switch {
		case !again && resp != nil:
			p.hand(resp, err, stop)
			return resp, nil
		case !again:
			return nil, p.giveUp(err, stop)
		}
		discard(resp)
		if !p.sleep(wait) {
			p.takeBack()
			return nil, p.giveUp(err, p.checkTime(time.Now()))
		}
	}
}

// enter starts the clock of the call.
func (p *passage) enter(c *Client) {
	method := p.req.Method
	fill(&method, http.MethodGet)
	p.safe, p.once = isSafe(method), hasBody(p.req) && p.req.GetBody == nil
	p.task.Resumed = p.req.Response != nil && !p.safe // a redirect led here: somebody had the request before
	if p.req.URL != nil {
		p.task.Service = p.req.URL.Host
	}
	p.resume(p.req.Context(), p.safe)
	p.open(p.req.Context(), c, &Call{Method: method, url: p.req.URL})
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// send makes one attempt, up to the header of its answer.
func (p *passage) send() (*http.Response, error) {
	p.begin()
	p.out, p.seen, p.answer = p.req, new(evidence), nil
	out, err := p.outgoing(p.seen.trace(p.attempting))
	if err != nil {
		return nil, err
	}
	p.out = out
	if _, err := p.awaitPause(out); err != nil {
		closeBody(out)
		return nil, err
	}
	resp, err := p.roundTrip(out)
	if err != nil {
		return nil, err
	}
	p.answer = &answer{Answer: Answer{Status: resp.StatusCode, Header: resp.Header}, code: codeOf(resp.Header)}
	p.last = p.answer
	return resp, nil
}

// begin opens the next attempt. The callee is told nothing.
func (p *passage) begin() {
	p.attempts++
	p.begun = time.Now()
	p.observeStart(Attempt{Number: p.attempts})
}

// outgoing returns the request of the attempt: the caller's, with the ctx, and with its
// body opened anew for a repetition. The caller's own request is not changed.
func (p *passage) outgoing(ctx context.Context) (*http.Request, error) {
	out := p.req.WithContext(ctx)
	if p.attempts > 1 && hasBody(p.req) {
		body, err := (&Stream{open: p.req.GetBody}).openBody()
		if err != nil {
			return nil, err
		}
		out.Body = body
	}
	if p.client.cfg.Prepare != nil && out.URL != nil {
		header, err := p.prepare(out, p.draftBody())
		if err != nil {
			closeBody(out)
			return nil, err
		}
		out.Header = header
	}
	return out, nil
}

// draftBody returns a function that opens the body for Config.Prepare; nil for a request
// without a body.
func (p *passage) draftBody() func() (io.ReadCloser, error) {
	switch {
	case !hasBody(p.req):
		return nil
	case p.once:
		return func() (io.ReadCloser, error) { return nil, errReadOnce }
	}
	return (&Stream{open: p.req.GetBody}).openBody
}

var errReadOnce = errors.New("retry: the body can be read only once; set GetBody of the request")

// verdict returns what the end of the attempt means.
func (p *passage) verdict(resp *http.Response, err error) Verdict {
	if resp == nil {
		return p.failure(err)
	}
	v := p.classify(resp)
	if v.Outcome != Rejected {
		v.Action = Stop // the answer is the caller's
	}
	v.RetryAfter, _ = wire.RetryAfter(resp.Header, time.Now())
	v.NotRetryable = !p.answer.success() && p.answer.forbidsRetry()
	return v
}

// classify finds the row of the answer, by its header alone.
func (p *passage) classify(resp *http.Response) Verdict {
	if p.answer.success() {
		return StatusVerdict(resp.StatusCode)
	}
	if v, ok := CodeVerdict(p.answer.code); ok {
		return v
	}
	if resp.StatusCode == http.StatusSwitchingProtocols && p.safe {
		return Verdict{Outcome: Completed, Evidence: "101: switched protocols"}
	}
	p.answer.Replayed, p.answer.Honoured = p.client.carrier.replayed(resp.Header)
	return p.answer.Verdict()
}

// failure returns the row of an attempt without an answer.
func (p *passage) failure(err error) Verdict {
	v := verdictOf(err, p.seen)
	if p.seen.asked.Load() || isWellFormed(p.out) {
		return v
	}
	// net/http refuses a malformed request before it looks for a connection. Other
	// transports, and those that are registered for other schemes, may not.
	v.Action = Stop
	if _, ok := p.client.cfg.Transport.(*http.Transport); ok && (p.req.URL == nil || isHTTP(p.req.URL)) {
		v.Outcome, v.Evidence = NotSent, "the request is malformed"
	}
	return v
}

// hand ends a call whose answer the caller gets. The err is what the answer means, nil
// after one that says that the call took effect.
func (p *passage) hand(resp *http.Response, err, stop error) {
	var failed *Error
	switch {
	case err == nil:
		p.budgetSuccess()
	case p.client.isObserved():
		failed = p.fail(err, stop)
	}
	p.observeCall(p.answer, failed)
	p.noteAnswer(resp)
	resp.Request = p.req
}

// giveUp ends a call that has no answer.
func (p *passage) giveUp(err, stop error) *Error {
	failed := p.fail(err, stop)
	p.noteEnd(failed)
	p.observeCall(p.last, failed)
	return failed
}

// fail returns the call's error, with the header of the last answer in it. The end of the
// time for further attempts is not its cause: it did not end the attempt.
func (p *passage) fail(err, stop error) *Error {
	if errors.Is(stop, ErrDeadline) && p.caller.Err() == nil {
		stop = nil
	}
	e := p.run.fail(err, stop)
	if a := p.last; a != nil {
		e.Status, e.Code, e.Header = a.Status, a.code, a.Header
	}
	return e
}

// maxDrained is how much of an answer that nobody gets is read, so that its connection can
// be used again, and drainTime is how long that may take.
const (
	maxDrained = 64 << 10
	drainTime  = 250 * time.Millisecond
)

// discard lets go of an answer that nobody gets. That of 421 is not read: another
// connection is wanted.
func discard(resp *http.Response) {
	if resp == nil || resp.Body == nil {
		return
	}
	if resp.StatusCode != http.StatusMisdirectedRequest && resp.ContentLength <= maxDrained {
		late := time.AfterFunc(drainTime, func() { _ = resp.Body.Close() })
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrained)
		late.Stop()
	}
	_ = resp.Body.Close()
}

// noteAnswer notes in the Calls of the caller's ctx how the call ended, once the body of
// its answer has ended. The end of a 101's connection says nothing.
func (p *passage) noteAnswer(resp *http.Response) {
	outcome := p.tally.outcome()
	switch {
	case p.noted == nil:
	case p.reads:
		p.noted(NotSent)
	case resp.Body == nil || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols:
		p.noted(outcome)
	default:
		resp.Body = &notedBody{ReadCloser: resp.Body, outcome: outcome, noted: p.noted}
	}
}

// A notedBody notes the outcome of a call at the end of its answer's body. The outcome is
// Unknown if the body breaks off.
type notedBody struct {
	io.ReadCloser
	outcome Outcome // if the body does not break off

	once  sync.Once
	noted func(Outcome)
}

func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		b.end(b.outcome)
	case err != nil:
		b.end(Unknown)
	}
	return n, err
}

// Close ends the body. A caller that reads no further has seen what it wants.
func (b *notedBody) Close() error {
	err := b.ReadCloser.Close()
	b.end(b.outcome)
	return err
}

func (b *notedBody) end(o Outcome) { b.once.Do(func() { b.noted(o) }) }
