package server

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/internal/record"
)

// details has a text for people for every code: its meaning, and what to do.
var details = map[wire.Code]string{
	wire.ScopeMissing:      "Send the credentials of a caller that this service knows. This attempt ran nothing.",
	wire.ScopeUnavailable:  "The service could not look up who you are. This attempt ran nothing. Send the same request with the same key again.",
	wire.KeyMissing:        "Send an Idempotency-Key header: 1 to 255 visible ASCII characters that you chose for this operation. This attempt ran nothing.",
	wire.KeyInvalid:        "Send one key of 1 to 255 visible ASCII characters without quotation marks, commas and backslashes. This attempt ran nothing.",
	wire.FirstSentInvalid:  "Send one time in RFC 3339 and UTC, not in the future and not before 1970, or leave the header out. This attempt ran nothing.",
	wire.BodyIncomplete:    "The request's body ended before its announced length. This attempt ran nothing. Send the whole request again.",
	wire.BodyTimeout:       "The request's body took too long to arrive. This attempt ran nothing. Send the same request with the same key again.",
	wire.BodyTooLarge:      "The request's body is larger than this service accepts. This attempt ran nothing. Send a smaller one with a new key.",
	wire.KeyReused:         "A key belongs to one request: the same method, path, query, media type and body. Send this request with a new key.",
	wire.InProgress:        "The first request with this key is still running. Send the same request with the same key again to get its answer.",
	wire.KeyExpired:        "This request was first sent too long ago to run now. Find out whether an earlier attempt took effect before you use a new key.",
	wire.ResponseGone:      "The request took effect, and its answer is not kept. Do not send it with a new key: look up its result instead.",
	wire.KeyCancelled:      "The request was cancelled before it ran, or its effect was undone. It will not run again. Use a new key to make a new request.",
	wire.OutcomeUnknown:    "Nobody knows whether this request took effect. The service's operators must settle it. Do not send it with a new key.",
	wire.LeaseLost:         "Another process took this request over. Send the same request with the same key again to get its answer.",
	wire.NotStorable:       "The service made an answer that cannot be stored. The request may have taken effect. Report the instance to the service.",
	wire.RecordUnreadable:  "The service cannot read what it stored for this key. This attempt ran nothing. Report the instance to the service.",
	wire.Poisoned:          "Too many processes ended while they ran this request. The service's operators must settle it. Do not send it with a new key.",
	wire.TransactionFailed: "The service's database refused the work, and rolled it back. Report the instance to the service.",
	wire.KeyNotFound:       "Nothing is stored for this key. No request with it has begun, or its record has been deleted since.",
	wire.MethodNotAllowed:  "This address has only GET and HEAD.",
	wire.NotClaimed:        "The service cannot take the request now. This attempt ran nothing. Send the same request with the same key again.",
	wire.StoreUnavailable:  "The service cannot tell whether this request took effect. Send the same request with the same key again.",
}

// exact are the details of refusals with more information than their code.
var exact = map[error]string{
	errKeyPolicy:   "The service does not accept keys of this form. This attempt ran nothing. Use another key.",
	errBadForward:  "The Idempotency-Cancels header must hold one key, in the form of an Idempotency-Key. This attempt ran nothing.",
	errSelfUndo:    "The Idempotency-Cancels header names the request's own key. This attempt ran nothing. Give the undo a key of its own.",
	errFingerprint: "The service cannot read the parts of this request that its key belongs to. This attempt ran nothing. Correct the request.",
	errMemo:        "The service cannot read what it must remember of this request. This attempt ran nothing. Correct the request.",
	errFuture:      "The Idempotency-First-Sent header is in the future. This attempt ran nothing. Send the time of the first attempt.",
	ErrShutdown:    "The service is shutting down. Send the same request with the same key again.",
}

// urn begins the instance member of a problem, which ends with the ID (RFC 9562 section 4).
const urn = "urn:uuid:"

// problem is the refusal as the caller gets it.
func (g *Guard) problem(c *call, out *outcome) wire.Problem {
	p := wire.NewProblem(out.Code, details[out.Code])
	for err, detail := range exact {
		if errors.Is(out.Err, err) {
			p.Detail = detail
		}
	}
	if out.Detail != "" {
		p.Detail = out.Detail
	}
	if out.Status != 0 {
		p.Status = out.Status
	}
	p.Retryable = p.Retryable || out.Retryable
	p.Instance = urn + c.ID.String()
	if s, ok := out.Code.Situation(); p.Retryable && (out.Retryable || ok && s.RetryAfter) {
		p.RetryAfterMs = max(out.RetryAfter.Milliseconds(), 1)
	}
	return p
}

// responseOf is the answer to a refusal if there is no renderer.
func responseOf(p wire.Problem) Response {
	return Response{
		Status: p.Status, Header: http.Header{"Content-Type": {wire.ProblemContentType}}, Body: p.JSON(),
	}
}

// renderProblem is the answer that p gets in the service's own shape. A broken renderer makes p
// a 500 in the shape of this package. c names the line in the log. The answer must have
// status; 0 means any status of a refusal.
func (g *Guard) renderProblem(r *http.Request, c *engine.Call, p wire.Problem, status int) Response {
	if g.cfg.RenderProblem == nil {
		return responseOf(p)
	}
	answer, err := g.render(r, p)
	if err == nil && status != 0 && answer.Status != status {
		err = fmt.Errorf("%w: status %d for a handler's %d", errRendered, answer.Status, status)
	}
	if err == nil {
		return answer
	}
	g.log.write(r.Context(), logLine{Line: engine.Line{
		Level: slog.LevelError, Message: "RenderProblem failed: answered with 500", Code: p.Code, Route: c.Route.Name, ID: c.ID, Err: err,
	}})
	p.Status = http.StatusInternalServerError
	return responseOf(p)
}

// render calls the renderer. Its panic is an error: a refusal must be answered as one.
func (g *Guard) render(r *http.Request, p wire.Problem) (answer Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			answer, err = Response{}, toPanicError("RenderProblem", v)
		}
	}()
	answer = g.cfg.RenderProblem(r, p)
	answer.Header = canonicalHeader(answer.Header)
	answer.Body = bytes.Clone(answer.Body)
	return answer, checkRendered(&answer)
}

// renderedFailure is the answer to a typed handler's error. Its status decides whether it is stored, so a renderer
// must not change the status.
func (g *Guard) renderedFailure(r *http.Request, c *engine.Call, failure typedProblem) Response {
	if g.cfg.RenderProblem == nil {
		return failure.response()
	}
	return g.renderProblem(r, c, wire.Problem{
		Type: failure.Type, Title: failure.Title, Status: failure.Status, Detail: failure.Detail,
		Instance: urn + c.ID.String(), Code: wire.Code(failure.Code),
		Retryable: failure.Status >= http.StatusInternalServerError || neverStored(failure.Status),
	}, failure.Status)
}

var errRendered = errors.New("server: RenderProblem returned no refusal")

// checkRendered rejects an answer that a client could mistake for something other than a refusal.
func checkRendered(answer *Response) error {
	switch {
	case answer.Status == 0:
		return fmt.Errorf("%w: no status", errRendered)
	case answer.Status < 400 || answer.Status > 599:
		return fmt.Errorf("%w: status %d, must be 400 to 599", errRendered, answer.Status)
	case len(answer.Body) == 0:
		return fmt.Errorf("%w: no body", errRendered)
	}
	return nil
}

// framing are the headers that the guard and net/http set for themselves.
var framing = []string{"Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Upgrade"}

// addRendered adds the answer's headers to those of the outer layers.
func addRendered(to http.Header, answer *Response) {
	header := answer.Header
	for _, name := range framing {
		header.Del(name)
	}
	maps.DeleteFunc(header, func(name string, _ []string) bool { return !record.IsToken(name) })
	for name, values := range header {
		for i, v := range values {
			values[i] = sanitize(v)
		}
		to[name] = values
	}
}
