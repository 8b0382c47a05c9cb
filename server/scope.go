package server

import (
	"errors"
	"net/http"
)

// MaxScopeBytes is the length of the longest scope.
const MaxScopeBytes = 1024

// A ScopeFunc returns whose keys a request uses: tenant and principal, taken
// from what authentication established and never from something that a client
// chooses freely. Two scopes never see each other's keys or answers.
//
// An error, an empty scope or one of more than [MaxScopeBytes] bytes refuses
// the request with scope-missing before anything is stored.
type ScopeFunc func(*http.Request) (string, error)

var errNoScope = errors.New("server: no scope")

// Unscoped is the [ScopeFunc] of a service that has one caller only, or whose
// callers may see each other's answers. It has to be spelled out.
func Unscoped(*http.Request) (string, error) { return "unscoped", nil }
