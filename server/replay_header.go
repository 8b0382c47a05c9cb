package server

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/fanonce/fanonce/childkey/wire"
)

// DefaultReplayHeaders returns the headers that are stored with an answer and
// replayed: those that describe the answer itself.
func DefaultReplayHeaders() []string { return slices.Clone(defaultReplayHeaders) }

var defaultReplayHeaders = []string{ // in canonical form
	"Content-Type", "Content-Language", "Content-Encoding", "Content-Disposition", "Content-Location",
	"Location", "Etag", "Last-Modified", "Link",
}

// neverReplayed reports whether no option can make the header, in canonical
// form, replayed: it concerns one connection, one moment or one caller's
// secrets, or this package writes it itself.
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

// A headerPolicy is the canonical names that are replayed.
type headerPolicy map[string]bool

func newHeaderPolicy(further []string) headerPolicy {
	p := headerPolicy{wire.HeaderForward: true} // this package's own
	for _, name := range append(DefaultReplayHeaders(), further...) {
		p[textproto.CanonicalMIMEHeaderKey(name)] = true
	}
	return p
}

func (p headerPolicy) allows(name string) bool { return p[name] && !neverReplayed(name) }

// lines returns the header lines to store, in a fixed order: line by line, for
// joining some headers changes their meaning.
func (p headerPolicy) lines(h http.Header) []headerLine {
	var lines []headerLine
	for name, values := range h {
		if !p.allows(name) {
			continue
		}
		for _, v := range values {
			lines = append(lines, headerLine{name, sanitize(v)})
		}
	}
	slices.SortStableFunc(lines, func(a, b headerLine) int { return strings.Compare(a.name, b.name) })
	return lines
}

type headerLine struct{ name, value string }

var noLineBreaks = strings.NewReplacer("\r", " ", "\n", " ")

// sanitize does to a value what net/http does before it sends it.
func sanitize(v string) string { return textproto.TrimString(noLineBreaks.Replace(v)) }

// validLine reports whether a stored line can be sent: a record that was
// tampered with must not split an answer in two.
func validLine(l headerLine) bool {
	if !isToken(l.name) || textproto.CanonicalMIMEHeaderKey(l.name) != l.name {
		return false
	}
	for i := range len(l.value) {
		if c := l.value[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return false
		}
	}
	return true
}

// isToken reports whether s is a token of RFC 9110 section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
