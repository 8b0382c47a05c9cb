package sdk

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// ours are the headers that the sdk and the retry client set: a call that set
// them itself would travel under another key, or tell the callee what is not so.
var ours = []string{
	wire.HeaderKey, wire.HeaderFirstSent, wire.HeaderCancels,
	wire.HeaderRetryAttempt, wire.HeaderRetryAllowance, wire.HeaderRequestTimeout,
}

// framing are the headers that belong to the HTTP connection.
var framing = []string{"Connection", "Content-Length", "Host", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// checkHeader returns an error wrapping ErrRequest if a call cannot have
// header. It shows names and never values, which may be secrets.
func checkHeader(header http.Header, profile *retry.Profile) error {
	for name, values := range header {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !token(name):
			return fmt.Errorf("%w: header name %q", ErrRequest, name)
		case slices.Contains(ours, canonical), profile.KeyHeader != "" && strings.EqualFold(name, profile.KeyHeader):
			return fmt.Errorf("%w: header %s is set by the sdk", ErrRequest, canonical)
		case slices.Contains(framing, canonical):
			return fmt.Errorf("%w: header %s belongs to the connection", ErrRequest, canonical)
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return fmt.Errorf("%w: header %s has a control character", ErrRequest, canonical)
			}
		}
	}
	return nil
}

// canonical returns a copy of header with its names as net/http spells them. Of
// a header that is there in two spellings every value is kept, in the order of
// the spellings, so that each run sends the same.
func canonical(header http.Header) http.Header {
	out := make(http.Header, len(header))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		out[http.CanonicalHeaderKey(name)] = append(out[http.CanonicalHeaderKey(name)], header[name]...)
	}
	return out
}

// token reports whether s is a token (RFC 9110 section 5.6.2): a method or the
// name of a header.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		alnum := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
