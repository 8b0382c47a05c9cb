package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// MaxScopeBytes is the length of the longest scope.
const MaxScopeBytes = childkey.MaxScopeBytes

// A ScopeFunc returns whose keys a request uses: tenant and principal, taken
// from what authentication established and never from something that a client
// chooses freely. Two scopes never see each other's keys or answers, and the
// calls made for them have different keys ([childkey.Hop]).
//
// A scope identifies the caller, never a credential or a session. Another scope
// is another tree of keys, and a retry under it runs anew. A caller's scope must
// therefore not change while the caller's keys live.
//
// A scope has 1 to [MaxScopeBytes] bytes of UTF-8 without NUL. Any other scope
// refuses the request with scope-missing (401). For a caller without credentials
// return "".
//
// An error refuses the request with scope-unavailable (503), which callers retry: the
// service that knows the callers may be down. An error that is or wraps a
// [*StatusError] says another status, such as 400 or 403, with its Detail: 408, 421,
// 425, 429 and 5xx are scope-unavailable and are retried, the others are
// scope-missing. Nothing is stored for a refused request. A 401 gets
// "WWW-Authenticate: Bearer" unless a layer around the guard sets another challenge.
type ScopeFunc func(*http.Request) (string, error)

// scopeOf returns the scope of a request, or why there is none.
func (g *Guard) scopeOf(r *http.Request) (string, *outcome) {
	scope, err := g.scope(r)
	if err != nil {
		return "", scopeRefusal(err)
	}
	if err := checkScope(scope); err != nil {
		return "", &outcome{code: wire.ScopeMissing, err: err}
	}
	return scope, nil
}

// scopeRefusal is the answer to an error of a ScopeFunc. An error is taken for a failure
// of the service: a caller who is told that no retry can help gives up, though only the
// service that knows callers is down.
func scopeRefusal(err error) *outcome {
	var status *StatusError
	if !errors.As(err, &status) || status.Status < 400 || status.Status > 599 {
		return &outcome{code: wire.ScopeUnavailable, retryAfter: time.Second, err: err}
	}
	out := &outcome{code: wire.ScopeMissing, status: status.Status, detail: status.Detail, err: err}
	if passes(status.Status) {
		out.code, out.retryAfter = wire.ScopeUnavailable, time.Second
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

var errNoScope = errors.New("server: no scope")

func checkScope(scope string) error {
	if scope == "" {
		return errNoScope
	}
	return childkey.CheckScope(scope)
}

// Unscoped is the [ScopeFunc] of a service that has one caller only, or whose
// callers may see each other's answers. It has to be spelled out.
//
// Its callers share the memory and the places that several scopes would share.
func Unscoped(*http.Request) (string, error) { return unscoped, nil }

const unscoped = "unscoped"
