package retry

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// A carrier is how the requests of a client carry keys: its Profile, as calls use it. It is
// read only.
type carrier struct {
	profile Profile
	asGiven bool // there is no Profile: a request that has a key keeps its headers as they are

	keyHeader string // in the spelling of net/http, also where the key is in the body
	bare      bool
	bodyField string // "": the key is in a header

	// the other headers of this library that the service gets
	firstSent, cancels, attempt, allowance, timeout bool

	marker func(http.Header) (replayed, honoured bool)
}

// newCarrier returns the carrier of p; nil means that there is no Profile. Without one
// Idempotency-Key is quoted in a Call, and the service gets what the Call itself asks for.
func newCarrier(p *Profile) carrier {
	if p == nil {
		return carrier{asGiven: true, keyHeader: wire.HeaderKey, firstSent: true, cancels: true, marker: replayMarker}
	}
	c := carrier{profile: *p, keyHeader: wire.HeaderKey, bare: p.Bare, bodyField: p.BodyField, marker: p.Replayed}
	c.profile.Headers = slices.Clone(p.Headers)
	if p.KeyHeader != "" {
		c.keyHeader = http.CanonicalHeaderKey(p.KeyHeader)
	}
	if c.marker == nil {
		c.marker = replayMarker
	}
	for _, name := range p.Headers {
		switch http.CanonicalHeaderKey(name) {
		case wire.HeaderFirstSent:
			c.firstSent = true
		case wire.HeaderCancels:
			c.cancels = true
		case wire.HeaderRetryAttempt:
			c.attempt = true
		case wire.HeaderRetryAllowance:
			c.allowance = true
		case wire.HeaderRequestTimeout:
			c.timeout = true
		}
	}
	return c
}

// check returns an error wrapping ErrInvalid if the service does not take the key.
func (c *carrier) check(key childkey.Key) error {
	if key.IsZero() {
		return nil
	}
	text := key.String()
	switch longest := c.profile.MaxKeyBytes; {
	case longest > 0 && len(text) > longest:
		return fmt.Errorf("%w: Key: %d bytes, the service takes at most %d", ErrInvalid, len(text), longest)
	case c.profile.Charset != "" && strings.Trim(text, c.profile.Charset) != "":
		return fmt.Errorf("%w: Key: it has characters that the service does not take", ErrInvalid)
	}
	return nil
}

// key returns the key of a request that has it in its header: in the service's own, or in
// Idempotency-Key. The zero Key means that there is none.
func (c *carrier) key(header http.Header) (childkey.Key, error) {
	key, _, err := wire.ParseKeyHeader(linesOf(header, wire.HeaderKey))
	if err != nil || c.keyHeader == wire.HeaderKey {
		return key, err
	}
	own, given, err := wire.ParseKeyHeader(linesOf(header, c.keyHeader))
	switch {
	case err != nil, !given:
		return key, err
	case !key.IsZero() && key != own:
		return key, fmt.Errorf("%s and %s have different keys", wire.HeaderKey, c.keyHeader)
	}
	return own, nil
}

// present reports whether a request with the header is under a key, or cancels one.
func (c *carrier) present(header http.Header) bool {
	for _, name := range []string{wire.HeaderKey, wire.HeaderCancels, c.keyHeader} {
		if len(linesOf(header, name)) > 0 {
			return true
		}
	}
	return false
}

// linesOf returns the lines of a header, in whatever spellings its name is there.
func linesOf(header http.Header, name string) []string {
	lines := header[name]
	for spelled, more := range header {
		if len(spelled) == len(name) && spelled != name && strings.EqualFold(spelled, name) {
			lines = append(slices.Clip(lines), more...)
		}
	}
	return lines
}

// expire has the call end when the service may have forgotten its key, where the call
// itself does not say when that is. Reading again does no harm.
func (c *carrier) expire(call *Call, now time.Time) {
	if !call.Expires.IsZero() || call.FirstSent.IsZero() || call.Key.IsZero() || safe(call.Method) {
		return
	}
	call.Expires = c.profile.Expires(call.FirstSent)
	if !call.Expires.IsZero() && !now.Before(call.Expires) {
		call.Resumed = true // somebody sent it before
	}
}
