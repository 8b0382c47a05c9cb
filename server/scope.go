package server

import (
	"errors"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
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
// A scope has 1 to [MaxScopeBytes] bytes of UTF-8 without NUL. Any other scope,
// or an error, refuses the request with scope-missing before anything is stored.
type ScopeFunc func(*http.Request) (string, error)

var errNoScope = errors.New("server: no scope")

func checkScope(scope string) error {
	if scope == "" {
		return errNoScope
	}
	return childkey.CheckScope(scope)
}

// Unscoped is the [ScopeFunc] of a service that has one caller only, or whose
// callers may see each other's answers. It has to be spelled out.
func Unscoped(*http.Request) (string, error) { return "unscoped", nil }
