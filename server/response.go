package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"runtime"
	"slices"
	"strings"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// A Response is an answer as a value. Header may be nil.
type Response struct {
	Status int // 200 to 999
	Header http.Header
	Body   []byte
}

// envelope encodes the part of r that is stored: the headers that may be replayed, and
// the body.
func (g *Guard) envelope(r Response) ([]byte, error) {
	if r.Status < 200 || r.Status > 999 {
		return nil, fmt.Errorf("%w: status %d, must be that of an answer, 200 to 999", ErrArgument, r.Status)
	}
	if len(r.Body) > 0 && !bodyAllowed(r.Status) {
		return nil, fmt.Errorf("%w: a body with status %d, which has none", ErrArgument, r.Status)
	}
	if int64(len(r.Body)) > g.cfg.MaxResponseBytes {
		return nil, fmt.Errorf("%w: a body of %d bytes, MaxResponseBytes is %d", ErrArgument, len(r.Body), g.cfg.MaxResponseBytes)
	}
	header := r.Header
	if !isCanonical(header) {
		header = canonicalHeader(header)
	}
	envelope, ok := record.EncodeEnvelope(g.headers.lines(header), r.Body)
	if !ok {
		return nil, fmt.Errorf("%w: the headers are malformed or too many", ErrArgument)
	}
	return envelope, nil
}

func isCanonical(h http.Header) bool {
	for name := range h {
		if textproto.CanonicalMIMEHeaderKey(name) != name {
			return false
		}
	}
	return true
}

// canonicalHeader is a copy of h with canonical names, as net/http spells them.
func canonicalHeader(h http.Header) http.Header {
	canonical := make(http.Header, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			canonical.Add(name, value)
		}
	}
	return canonical
}

// A storedAnswer is a stored answer, decoded. The body shares the envelope's memory.
type storedAnswer struct {
	status int
	lines  []record.Line // those of one name follow each other
	body   []byte
}

func openAnswer(status int, envelope []byte) (storedAnswer, error) {
	lines, body, err := record.DecodeEnvelope(envelope)
	if err != nil || status < 200 || status > 999 || (len(body) > 0 && !bodyAllowed(status)) {
		return storedAnswer{}, record.ErrEnvelope
	}
	return storedAnswer{status, lines, body}, nil
}

// response is the answer with the body that it shares.
func (a *storedAnswer) response() Response {
	r := Response{Status: a.status, Header: make(http.Header, len(a.lines)), Body: a.body}
	for _, l := range a.lines {
		r.Header[l.Name] = append(r.Header[l.Name], l.Value)
	}
	return r
}

// defaultReplayHeaders are the headers that describe the answer itself. The doc
// comment of [Config.ReplayHeaders] lists them.
var defaultReplayHeaders = []string{ // in canonical form
	"Content-Type", "Content-Language", "Content-Encoding", "Content-Disposition", "Content-Location",
	"Location", "Etag", "Last-Modified", "Link",
}

// neverReplayed reports whether the header, in canonical form, must not be
// replayed under any option. Such a header belongs to one connection, one
// moment or one caller's secrets, or this package writes it itself.
func neverReplayed(name string) bool {
	switch name {
	case "Set-Cookie", "Set-Cookie2", "Authorization", "Www-Authenticate", "Authentication-Info",
		"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length",
		"Date", "Age", "Server-Timing", "Retry-After",
		"Traceparent", "Tracestate", "X-Request-Id", "Request-Id", "X-Correlation-Id", "X-Amzn-Trace-Id",
		"Retry-After-Ms", "Idempotency-Key", "Idempotent-Replayed", "Idempotency-Code", "Idempotency-Should-Retry", "X-Should-Retry":
		return true
	}
	for _, prefix := range []string{"Proxy-", "X-Ratelimit-", "Ratelimit", "X-B3-", http.TrailerPrefix} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// A headerPolicy has the canonical names of the headers that are replayed.
type headerPolicy map[string]bool

func newHeaderPolicy(further []string) headerPolicy {
	p := headerPolicy{wire.HeaderForward: true} // this package's own
	for _, name := range slices.Concat(defaultReplayHeaders, further) {
		p[textproto.CanonicalMIMEHeaderKey(name)] = true
	}
	return p
}

func (p headerPolicy) allows(name string) bool { return p[name] && !neverReplayed(name) }

// lines returns the header lines to store, in a fixed order. It joins no lines,
// because that changes the meaning of some headers.
func (p headerPolicy) lines(h http.Header) []record.Line {
	var lines []record.Line
	for name, values := range h {
		if !p.allows(name) {
			continue
		}
		for _, v := range values {
			lines = append(lines, record.Line{Name: name, Value: sanitize(v)})
		}
	}
	slices.SortStableFunc(lines, func(a, b record.Line) int { return strings.Compare(a.Name, b.Name) })
	return lines
}

var noLineBreaks = strings.NewReplacer("\r", " ", "\n", " ")

// sanitize does to a value what net/http does before it sends it.
func sanitize(v string) string { return textproto.TrimString(noLineBreaks.Replace(v)) }

var errRedact = errors.New("server: Redact returned an error")

// redactor returns the route's Redact for a call, observed, or nil. A panic of
// Redact becomes an error, because the work is done: if the panic went on, the
// next call would do the work again.
func (h *guarded) redactor(ctx context.Context, c *call) func(Response) (Response, error) {
	if h.route.Redact == nil || c.Key.IsZero() { // without a key nothing is stored
		return nil
	}
	return func(r Response) (stored Response, err error) {
		defer func() {
			if v := recover(); v != nil {
				err = toPanicError("Redact", v)
			}
			if err != nil {
				h.guard.observe(ctx, Event{Kind: EventRedactError, Route: c.Route.Name, ID: c.ID, Err: err})
			}
		}()
		if stored, err = h.route.Redact(r); err != nil {
			return Response{}, errRedact // its own text may hold the body
		}
		return stored, nil
	}
}

// toPanicError is the error for a panic of a callback that sees answers. Only the
// runtime's own values have a text that cannot hold a part of one.
func toPanicError(callback string, v any) error {
	if err, ok := v.(runtime.Error); ok {
		return fmt.Errorf("server: %s panicked: %w", callback, err)
	}
	return fmt.Errorf("server: %s panicked with a %T", callback, v)
}

// amend records the answer that the route gives for a refused COMMIT, as it records
// a handler's answer.
func (h *guarded) amend(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call, refused *store.TxError) (*recorder, engine.Result, error) {
	answer, err := h.route.OnCommitError(ctx, refused)
	if err != nil {
		var status *StatusError
		switch {
		case !errors.As(err, &status):
			return nil, engine.Result{}, err
		case len(status.Settle) > 0:
			return nil, engine.Result{}, fmt.Errorf("%w: OnCommitError cannot settle: the run has ended", ErrArgument)
		}
		answer = h.guard.renderedFailure(r, &c.Call, problemOf(err))
	}
	rec := newRecorder(w, c.route, &h.guard.cfg)
	maps.Copy(rec.Header(), canonicalHeader(answer.Header))
	rec.WriteHeader(answer.Status)
	if len(answer.Body) > 0 {
		_, _ = rec.Write(answer.Body) // the result of finish contains its error
	}
	return rec, rec.finish(h.guard.headers, 0, h.redactor(ctx, c)), nil
}
