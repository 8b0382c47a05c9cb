package server

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
)

// ErrNoKey is the error that a [Route.Key] returns, wrapped or not, for a request without a key. The request is
// refused with key-missing.
var ErrNoKey = errors.New("server: the request names no key")

var (
	errKeyRefused  = errors.New("server: Route.Key refused the request") // its own text may hold the body
	errKeyEmpty    = errors.New("server: Route.Key returned no key and no error")
	errKeyUnstable = errors.New("server: Route.Key returned two keys for one request")
	errKeyDiffers  = errors.New("server: Route.Key ignores the request's Idempotency-Key header and returned another key")
)

// keyOf returns the key that the route's own function reads from the request.
//
// The function is called twice. A retry is the same request once more: if the function returned another key for it,
// the effect would happen twice.
func (h *guarded) keyOf(r *http.Request, body []byte) (childkey.Key, *outcome) {
	text, err := h.callKey(r, body)
	var again string
	if err == nil {
		again, err = h.callKey(r, body)
	}
	var failed *panicError
	switch {
	case errors.As(err, &failed):
		return childkey.Key{}, brokenKey(err)
	case errors.Is(err, ErrNoKey):
		return childkey.Key{}, &outcome{Code: wire.KeyMissing, Detail: "The request names no idempotency key where this service looks for it. This attempt ran nothing."}
	case err != nil:
		return childkey.Key{}, refusedBy(err, errKeyRefused)
	case text == "" || again == "":
		return childkey.Key{}, brokenKey(errKeyEmpty)
	case text != again:
		return childkey.Key{}, brokenKey(errKeyUnstable)
	}
	key, err := childkey.Parse(text)
	if err != nil {
		return childkey.Key{}, &outcome{Code: wire.KeyInvalid, Err: err}
	}
	inHeader, present, err := wire.ParseKeyHeader(r.Header.Values(wire.HeaderKey))
	if present && (err != nil || inHeader != key) && !h.mapsHeader(r, body, text) {
		return childkey.Key{}, brokenKey(errKeyDiffers)
	}
	return key, nil
}

// mapsHeader reports whether the route's function made text of the Idempotency-Key header: without the header it returns
// something else. A function that ignores the header has found a key that its caller knows nothing of.
func (h *guarded) mapsHeader(r *http.Request, body []byte, text string) bool {
	without, err := h.callKey(withKeyHeader(r, nil), body)
	return err != nil || without != text
}

// withKeyHeader returns r with other lines of the Idempotency-Key header.
func withKeyHeader(r *http.Request, lines []string) *http.Request {
	r = r.WithContext(r.Context())
	r.Header = r.Header.Clone()
	r.Header[wire.HeaderKey] = lines
	return r
}

// refusedBy refuses a request that a function of the route cannot read. err's own text may contain the body, so the
// log gets the argument instead. A [StatusError] has the status for the caller.
func refusedBy(err, instead error) *outcome {
	out := outcome{Code: wire.KeyInvalid, Err: instead}
	var status *StatusError
	if errors.As(err, &status) && status.Status >= 400 && status.Status < 500 && !passes(status.Status) {
		out.Status, out.Detail = status.Status, status.Detail
	}
	return &out
}

// A panicError is a panic of one of the route's functions.
type panicError struct{ err error }

func (e *panicError) Error() string { return e.err.Error() }

// callKey calls the route's function. Its panic is an error.
func (h *guarded) callKey(r *http.Request, body []byte) (text string, err error) {
	defer func() {
		if v := recover(); v != nil {
			text, err = "", &panicError{toPanicError("Route.Key", v)}
		}
	}()
	return h.route.Key(r, body)
}

// brokenKey refuses a request whose key the service cannot name. The request never runs: its retry could not be told
// from another request.
func brokenKey(err error) *outcome {
	return &outcome{
		Code: wire.KeyInvalid, Status: http.StatusInternalServerError, Broken: true, Err: err,
		Detail: "The service cannot tell the key of this request. This attempt ran nothing. Report the instance to the service.",
	}
}

// checkKey applies the guard's rules for keys.
func (h *guarded) checkKey(key childkey.Key) error {
	if policy := h.guard.cfg.KeyPolicy; policy != nil && policy(key) != nil {
		return errKeyPolicy
	}
	return nil
}

// readForward reads the forward key of an undo.
func (h *guarded) readForward(r *http.Request, body []byte, c *call) error {
	forward, _, err := wire.ParseKeyHeader(h.forwardLines(r, body))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errBadForward, err)
	case forward == c.Key:
		return errSelfUndo
	}
	c.Forward = forward
	return nil
}

// forwardLines returns the lines of the Idempotency-Cancels header. If the route's function maps the key of a request, it
// mapped the forward key when the forward call came. So it maps it here, too: otherwise Barrier would look for a call
// that never came.
func (h *guarded) forwardLines(r *http.Request, body []byte) []string {
	lines := r.Header.Values(wire.HeaderCancels)
	if h.route.Key == nil || len(lines) == 0 {
		return lines
	}
	forward := withKeyHeader(r, lines)
	text, err := h.callKey(forward, body)
	if err != nil || !h.mapsHeader(forward, body, text) {
		return lines
	}
	return []string{text}
}

// A ScopeFunc returns the scope of a request's key: its tenant and principal. It takes them from the authentication,
// and never from a value that a client chooses freely. Two scopes never see each other's keys or answers, and the
// calls made for them have different keys ([childkey.Hop]).
//
// A scope identifies the caller, never a credential or a session. Another scope
// is another tree of keys, and a retry under it runs again. A caller's scope must
// therefore not change while the caller's keys live.
//
// A scope has 1 to [childkey.MaxScopeBytes] bytes of UTF-8 without NUL. Any other scope
// refuses the request with scope-missing (401). For a caller without credentials
// return "".
//
// An error refuses the request with scope-unavailable (503), which callers retry: the service that knows the callers
// may be down. An error that is or wraps a [*StatusError] chooses another status, such as 400 or 403, and its Detail.
// 408, 421, 425, 429 and 5xx are scope-unavailable and are retried. Other statuses are scope-missing. A refused
// request leaves no record. A 401 gets "WWW-Authenticate: Bearer" unless a layer around the guard sets another
// challenge.
type ScopeFunc func(*http.Request) (string, error)

// scopeOf returns the scope of a request, or why there is none.
func (g *Guard) scopeOf(r *http.Request) (string, *outcome) {
	scope, err := g.scope(r)
	if err != nil {
		return "", scopeRefusal(err)
	}
	if !isScope(scope) {
		return "", &outcome{Code: wire.ScopeMissing, Err: errNoScope}
	}
	return scope, nil
}

// scopeRefusal is the answer to an error of a ScopeFunc. An error counts as a failure of the service that knows the
// callers. After a refusal that is not retryable a caller would give up, although only that service is down.
func scopeRefusal(err error) *outcome {
	var status *StatusError
	if !errors.As(err, &status) || status.Status < 400 || status.Status > 599 {
		return &outcome{Code: wire.ScopeUnavailable, RetryAfter: time.Second, Err: err}
	}
	out := &outcome{Code: wire.ScopeMissing, Status: status.Status, Detail: status.Detail, Err: err}
	if passes(status.Status) {
		out.Code, out.RetryAfter = wire.ScopeUnavailable, time.Second
	}
	return out
}

// passes reports whether a later request with the same credentials may get another
// answer than this status.
func passes(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}

const scopeRule = "1 to %d bytes of UTF-8 without NUL"

var (
	errNoScope  = fmt.Errorf("server: the ScopeFunc returned no scope of "+scopeRule, childkey.MaxScopeBytes)
	errBadScope = fmt.Errorf("%w: the scope must have "+scopeRule, ErrArgument, childkey.MaxScopeBytes)
)

func isScope(scope string) bool { return scope != "" && childkey.CheckScope(scope) == nil }

// Unscoped is the [ScopeFunc] of a service with one caller only, or whose
// callers may see each other's answers. There is no default, so that a service
// chooses it explicitly. The scope is "unscoped".
//
// Its callers share the memory and the places that several scopes would share.
func Unscoped(*http.Request) (string, error) { return engine.Unscoped, nil }
