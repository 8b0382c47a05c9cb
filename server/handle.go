package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
)

// A typed handler returns a StatusError to answer with a status of 400 or above; [Refuse] makes a plain one. Any other
// error is answered with 500. The answer is a problem (RFC 9457) with Code and Detail, in the
// shape of [Config.RenderProblem] if that is set. Err is only logged, at info level if the
// status is below 500. A [ScopeFunc] may return one too.
//
// Its status decides what is stored, as for any handler. A 5xx is not stored. 401, 403, 407, 408, 421, 423, 425 and
// 429 are not stored and release the key, in an [Opaque] handler too. Any other status, such as 402, 409 or 422, is
// stored, and is the answer to every retry. With any of them the rows of a [Transactional] handler are rolled back.
// Settle changes this:
//
//	return &server.StatusError{Status: 402, Code: "declined", Settle: []server.SettleOption{server.KeepRows()}}
//
// See [Effect] for the whole table, and for when a handler may answer so.
type StatusError struct {
	Status int    // 400 to 599; any other value is answered with 500
	Code   string // the problem's code member; optional
	Detail string // the problem's detail member, for people; optional
	Err    error  // the cause; optional
	// Settle has the options of [Settle], for the run that the error ends. If an option
	// cannot be applied the handler failed: the answer is 500. In an error of a [ScopeFunc]
	// Settle is not used, because no run has begun.
	Settle []SettleOption
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

// Refuse returns the error by which a handler refuses: a [*StatusError] without a cause and without options. A typed
// handler, a function of [Do] or [Guard.Do], a [ScopeFunc] and the functions of a [Route] can return it:
//
//	return Hold{}, server.Refuse(http.StatusConflict, "sold-out", "No tea is left.")
//
// status is 400 to 499. code is for programs, and detail is for people. A code has 1 to 64 ASCII letters, digits and "-", "_"
// or "."; detail may be empty. Of any other status or code Refuse makes an error that wraps [ErrArgument], which a handler's
// caller gets as 500, and the log gets as it is. For a status that is computed, such as one that another service answered
// with, use a StatusError.
//
// What is stored, and what becomes of the rows, depends on status, as for any handler ([Effect] has the table).
func Refuse(status int, code, detail string) error {
	switch {
	case status < 400 || status > 499:
		return fmt.Errorf("%w: Refuse: status %d, must be 400 to 499", ErrArgument, status)
	case code == "" || len(code) > maxCodeBytes || strings.Trim(code, codeBytes) != "":
		return fmt.Errorf("%w: Refuse: code %.100q, must have 1 to %d letters, digits, \"-\", \"_\" and \".\"", ErrArgument, code, maxCodeBytes)
	}
	return &StatusError{Status: status, Code: code, Detail: detail}
}

const (
	maxCodeBytes = 64
	codeBytes    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
)

// A Router takes handlers by patterns as those of [http.ServeMux], "POST /orders/{id}". *http.ServeMux and chi's routers
// are Routers, and guardgin makes one of a gin router. A router whose handlers do not find the values of a pattern with
// [http.Request.PathValue] has no path values for [PathValue].
type Router interface {
	Handle(pattern string, handler http.Handler)
}

// Handle serves op on mux, guarded by g. It decodes the body into In, calls fn, and
// answers 200 with Out, both by op's codec. An error of fn is answered as [StatusError]
// says. The error's text never leaves the process.
//
// fn's ctx carries the parent key of fn's own calls: the hop key of the inbound
// key ([childkey.Hop]). [Fence], [Barrier], [InboundKey], [PathValue] and the
// other functions that take a run's ctx work in it. It does not end when the client hangs up, nor at a
// deadline of a layer around mux, but after the HandlerTimeout; [Guard.Handler] has the rest.
//
// A body that the codec refuses is answered with 400 and the code body-malformed, and another
// media type with 415 and media-type-unsupported. The detail says what is wrong, for people.
// Neither answer is stored, since fn did not run: the client may send the corrected body under
// the same key. Members that In lacks are ignored, unless [Route].RefuseUnknownMembers is set.
//
// A panic of fn settles the key as its effect class says. Then it goes on to net/http,
// which cuts the connection: the caller sees a lost call, and retries.
//
// The route is named by op's method and path. Handle returns a [ConfigError],
// or the error of op; also if mux has the pattern already.
func Handle[In, Out any](mux Router, g *Guard, op contract.Operation[In, Out], effect Effect,
	fn func(context.Context, In) (Out, error),
) error {
	return HandleRoute(mux, g, op, Route{Effect: effect}, fn)
}

// MustHandle is [Handle] for a main function, and panics with its error. A route that cannot be served is a mistake in the
// program, which shows at the first start: no input and no outage makes one. A function that returns an error calls
// Handle.
func MustHandle[In, Out any](mux Router, g *Guard, op contract.Operation[In, Out], effect Effect,
	fn func(context.Context, In) (Out, error),
) {
	if err := Handle(mux, g, op, effect, fn); err != nil {
		panic(err) //nolint:forbidigo // what Must... promises
	}
}

// HandleRoute is [Handle] for a route with more settings than its effect class.
// Its zero Name means op's method and path.
func HandleRoute[In, Out any](mux Router, g *Guard, op contract.Operation[In, Out], route Route,
	fn func(context.Context, In) (Out, error),
) (err error) {
	switch {
	case mux == nil || mux == Router((*http.ServeMux)(nil)):
		return reject("mux", "nil", "a router is required")
	case g == nil:
		return reject("guard", "nil", "a Guard is required")
	case fn == nil:
		return reject("fn", "nil", "a function is required")
	case op.Err() != nil:
		return op.Err()
	case !g.guardsMethod(op.Method()):
		return reject("Config.Methods", g.cfg.Methods, "must have "+op.Method()+", the method of the operation")
	}
	pattern := op.Method() + " " + op.Pattern()
	route.Name = cmp.Or(route.Name, pattern)
	strict := route.RefuseUnknownMembers
	if strict && op.Codec() != contract.JSON {
		return reject("Route.RefuseUnknownMembers", true, "the operation has a codec of its own, which decides")
	}
	route.RefuseUnknownMembers = false
	handler, err := g.Route(route, &typed[In, Out]{guard: g, codec: op.Codec(), strict: strict, fn: fn})
	if err != nil {
		return err
	}
	defer func() {
		if v := recover(); v != nil { // a router panics if it has the pattern already
			err = reject("pattern", pattern, fmt.Sprint(v))
		}
	}()
	mux.Handle(pattern, handler)
	return nil
}

// PathValue returns the unescaped value of a wildcard of the operation's path. It returns
// "" outside a typed handler, or if the path does not contain the wildcard.
func PathValue(ctx context.Context, name string) string {
	if r, ok := ctx.Value(requestKey{}).(*http.Request); ok {
		return r.PathValue(name)
	}
	return ""
}

type requestKey struct{}

// typed is a typed function as an http.Handler; the guard is around it.
type typed[In, Out any] struct {
	guard  *Guard
	codec  contract.Codec
	strict bool // unknown members are refused
	fn     func(context.Context, In) (Out, error)
}

// ServeHTTP implements http.Handler.
func (h *typed[In, Out]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in In
	if err := h.decodeBody(r, &in); err != nil {
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

// A typedProblem is a problem of the service, not of this package. Its Go type
// marks that.
type typedProblem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code,omitempty"`
}

// response returns p as an answer in the shape of this package.
func (p typedProblem) response() Response {
	body, _ := json.Marshal(p) // strings and a number always encode
	return Response{Status: p.Status, Header: http.Header{"Content-Type": {wire.ProblemContentType}}, Body: body}
}

// problemOf returns the answer to a typed function's error.
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
	err = settleBy(r.Context(), err)
	p := problemOf(err)
	c := &engine.Call{Route: engine.Route{Name: r.Pattern}}
	if a := engine.From(r.Context()); a != nil {
		c = a.Call()
	}
	h.guard.logFailure(r.Context(), c, p.Status, err)
	answer := h.guard.renderedFailure(r, c, p)
	addRendered(w.Header(), &answer)
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body) // into the recorder
}

// logFailure logs a typed handler's error: a failure, or the cause of a refusal.
func (g *Guard) logFailure(ctx context.Context, c *engine.Call, status int, err error) {
	l := logLine{
		Line:   engine.Line{Level: slog.LevelError, Message: "handler failed", Route: c.Route.Name, ID: c.ID, Err: err},
		status: status, perErr: true,
	}
	var refusal *StatusError
	if status < http.StatusInternalServerError {
		if !errors.As(err, &refusal) || refusal.Err == nil {
			return // the caller gets the whole error
		}
		l.Level, l.Message = slog.LevelInfo, "handler refused"
	}
	g.log.write(ctx, l)
}
