package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
)

// A StatusError is what a typed handler returns to answer with something other
// than 200, or 500 for any other error. Its answer is a problem (RFC 9457) with Code
// and Detail, or what [Config.RenderProblem] makes of it; Err is only logged, at info
// level where the status is below 500. A [ScopeFunc] returns one too.
//
// Its status decides what is stored, as for any handler: a 5xx never is, unless the
// handler calls [Final], and nor are 401, 403, 407, 408, 421, 423, 425 and 429, which
// release the key, in an [Opaque] handler too. Any other, such as 402, 409 or 422, is
// stored, and is the answer to every retry; a [Transactional] handler commits its rows
// with it, unless it calls [Rollback]. See [Effect] for all of it, and for when a handler
// may answer so.
type StatusError struct {
	Status int    // 400 to 599; anything else is answered with 500
	Code   string // the problem's code member; optional
	Detail string // the problem's detail member, for people; optional
	Err    error  // the cause; optional
}

// Error implements error.
func (e *StatusError) Error() string {
	text := "server: status " + strconv.Itoa(e.Status)
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *StatusError) Unwrap() error { return e.Err }

// Handle serves op on mux, guarded by g: it decodes the body into In, calls fn,
// and answers 200 with Out, both as op's codec does, or with what a [StatusError]
// says. The error's text never leaves the process.
//
// fn's ctx carries the parent key of fn's own calls: the hop key of the inbound
// key ([childkey.Hop]). [Fence], [Barrier], [InboundKey], [PathValue] and the
// other functions that take a run's ctx work in it. What
// the codec refuses is answered with 400, and a media type other than its own
// with 415; both are stored, as any verdict on the request itself.
//
// A panic of fn settles the key as its effect class says, and goes on to net/http, which
// cuts the connection: the caller sees a lost call, and tries again.
//
// The route is named by op's method and path. Handle returns a [ConfigError],
// or the error of op; also if mux has the pattern already.
func Handle[In, Out any](mux *http.ServeMux, g *Guard, op contract.Operation[In, Out], effect Effect,
	fn func(context.Context, In) (Out, error),
) error {
	return HandleRoute(mux, g, op, Route{Effect: effect}, fn)
}

// HandleRoute is [Handle] for a route with more to say than its effect class. Its
// zero Name means op's method and path.
func HandleRoute[In, Out any](mux *http.ServeMux, g *Guard, op contract.Operation[In, Out], route Route,
	fn func(context.Context, In) (Out, error),
) (err error) {
	switch {
	case mux == nil:
		return reject("mux", "nil", "a ServeMux is required")
	case g == nil:
		return reject("guard", "nil", "a Guard is required")
	case fn == nil:
		return reject("fn", "nil", "a function is required")
	case op.Err() != nil:
		return fmt.Errorf("server: %w", op.Err())
	case !g.guardsMethod(op.Method()):
		return reject("Config.Methods", g.cfg.Methods, op.Method()+" is not guarded")
	}
	pattern := op.Method() + " " + op.Pattern()
	route.Name = cmp.Or(route.Name, pattern)
	handler, err := g.Route(route, &typed[In, Out]{guard: g, codec: op.Codec(), fn: fn})
	if err != nil {
		return err
	}
	defer func() {
		if v := recover(); v != nil { // ServeMux has no other way to say it
			err = reject("pattern", pattern, fmt.Sprint(v))
		}
	}()
	mux.Handle(pattern, handler)
	return nil
}

// PathValue returns what a wildcard of the operation's path matched, unescaped;
// "" outside a typed handler, or if the path has no such wildcard.
func PathValue(ctx context.Context, name string) string {
	if r, ok := ctx.Value(requestKey{}).(*http.Request); ok {
		return r.PathValue(name)
	}
	return ""
}

type requestKey struct{}

// typed is a typed function as an http.Handler; the guard is around it.
type typed[In, Out any] struct {
	guard *Guard
	codec contract.Codec
	fn    func(context.Context, In) (Out, error)
}

// ServeHTTP implements http.Handler.
func (h *typed[In, Out]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in In
	if err := decodeBody(h.codec, r, &in); err != nil {
		h.fail(w, r, err)
		return
	}
	out, err := h.fn(context.WithValue(r.Context(), requestKey{}, r), in)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	answer, err := h.codec.Encode(out)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", h.codec.ContentType())
	_, _ = w.Write(answer) // into the recorder
}

// decodeBody returns a StatusError for what is not the caller's In.
func decodeBody(codec contract.Codec, r *http.Request, in any) error {
	if !ofKind(r.Header.Get("Content-Type"), codec) {
		return &StatusError{Status: http.StatusUnsupportedMediaType, Detail: "The body must be " + codec.ContentType() + "."}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if err := codec.Decode(body, in); err != nil {
		return &StatusError{Status: http.StatusBadRequest, Detail: err.Error()} // it holds nothing of the body
	}
	return nil
}

// ofKind reports whether a body of this type is the codec's. One that says nothing
// is taken for it, and every +json for JSON (RFC 6839 section 3.1).
func ofKind(contentType string, codec contract.Codec) bool {
	if contentType == "" || contentType == codec.ContentType() {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	want, _, _ := mime.ParseMediaType(codec.ContentType()) // it was parsed when the operation was declared
	return kind == want || want == contract.ContentType && strings.HasSuffix(kind, "+json")
}

// A typedProblem is a problem of the service, not of this package: its type
// says so.
type typedProblem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code,omitempty"`
}

// problemOf is what a typed function's error is answered with.
func problemOf(err error) typedProblem {
	p := typedProblem{Type: "about:blank", Status: http.StatusInternalServerError}
	var status *StatusError
	if errors.As(err, &status) && status.Status >= 400 && status.Status <= 599 {
		p.Status, p.Code, p.Detail = status.Status, status.Code, status.Detail
	}
	p.Title = http.StatusText(p.Status)
	return p
}

func (h *typed[In, Out]) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if errors.Is(err, wire.ErrVetoed) {
		_ = Veto(r.Context()) // outside a run there is nothing to say
	}
	c := &call{route: &Route{Name: r.Pattern}}
	if t := turnFrom(r.Context()); t != nil {
		c = t.run.call
	}
	h.guard.logFailure(r.Context(), c, p.Status, err)
	answer := h.guard.renderedFailure(r, c, p)
	addRendered(w.Header(), &answer)
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body) // into the recorder
}

// logFailure logs a typed handler's error: a failure, or the cause of a verdict.
func (g *Guard) logFailure(ctx context.Context, c *call, status int, err error) {
	l := logLine{
		level: slog.LevelError, message: "handler failed", route: c.route.Name, id: c.id, status: status, err: err, perErr: true,
	}
	var verdict *StatusError
	if status < http.StatusInternalServerError {
		if !errors.As(err, &verdict) || verdict.Err == nil {
			return // the caller gets all that there is to say
		}
		l.level, l.message = slog.LevelInfo, "handler refused"
	}
	g.log.write(ctx, l)
}
