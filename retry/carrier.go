package retry

import (
	"bytes"
	"encoding/json"
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
	asGiven bool // without a Profile: a request with a key keeps its headers as they are

	keyHeader string // in the spelling of net/http, also where the key is in the body
	bare      bool
	bodyField string // "": the key is in a header

	// the other headers of this library that the service gets
	firstSent, cancels, parent, attempt, allowance, timeout bool

	replayed func(http.Header) (replayed, honoured bool)
}

// newCarrier returns the carrier of p; p is nil without a Profile. Without one
// Idempotency-Key is quoted in a Call, and the service gets what the Call itself asks for.
func newCarrier(p *Profile) carrier {
	if p == nil {
		return carrier{asGiven: true, keyHeader: wire.HeaderKey, firstSent: true, cancels: true, replayed: replayedHeader}
	}
	c := carrier{profile: *p, keyHeader: wire.HeaderKey, bare: p.Bare, bodyField: p.BodyField, replayed: p.Replayed}
	c.profile.Headers = slices.Clone(p.Headers)
	if p.KeyHeader != "" {
		c.keyHeader = http.CanonicalHeaderKey(p.KeyHeader)
	}
	if c.replayed == nil {
		c.replayed = replayedHeader
	}
	for _, name := range p.Headers {
		switch http.CanonicalHeaderKey(name) {
		case wire.HeaderFirstSent:
			c.firstSent = true
		case wire.HeaderCancels:
			c.cancels = true
		case wire.HeaderParent:
			c.parent = true
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

// ownLines are the lines of a request's header that the client reads, in whatever spellings
// their names are there.
type ownLines struct {
	key       []string // of Idempotency-Key
	service   []string // of the service's own header for keys, if that is another
	cancels   []string
	firstSent []string
}

// lines finds the lines in one pass over the header.
func (c *carrier) lines(header http.Header) (own ownLines) {
	for name, values := range header {
		switch {
		case sameName(name, wire.HeaderKey):
			own.key = join(own.key, values)
		case sameName(name, wire.HeaderCancels):
			own.cancels = join(own.cancels, values)
		case sameName(name, wire.HeaderFirstSent):
			own.firstSent = join(own.firstSent, values)
		case sameName(name, c.keyHeader):
			own.service = join(own.service, values)
		}
	}
	return own
}

func sameName(name, canonical string) bool {
	return len(name) == len(canonical) && strings.EqualFold(name, canonical)
}

// join copies only if there are two spellings.
func join(lines, more []string) []string {
	if len(lines) == 0 {
		return more
	}
	return append(slices.Clip(lines), more...)
}

// key returns the key of a request: from the service's own header, or from Idempotency-Key.
// The zero Key means that there is none.
func (c *carrier) key(own ownLines) (childkey.Key, error) {
	key, _, err := wire.ParseKeyHeader(own.key)
	if err != nil || len(own.service) == 0 {
		return key, err
	}
	theirs, _, err := wire.ParseKeyHeader(own.service)
	if err == nil && !key.IsZero() && key != theirs {
		err = fmt.Errorf("%s and %s have different keys", wire.HeaderKey, c.keyHeader)
	}
	return theirs, err
}

// present reports whether a request with the header is under a key, or cancels one.
func (c *carrier) present(header http.Header) bool {
	own := c.lines(header)
	return len(own.key) > 0 || len(own.service) > 0 || len(own.cancels) > 0
}

// expire has the call end when the service may have forgotten its key, where the call
// itself does not say when that is. Reading again does no harm.
func (c *carrier) expire(call *Call) {
	if !call.Expires.IsZero() || call.FirstSent.IsZero() || call.Key.IsZero() || safe(call.Method) {
		return
	}
	call.Expires = c.profile.Expires(call.FirstSent)
	if !call.Expires.IsZero() && !time.Now().Before(call.Expires) {
		call.Resumed = true // somebody sent it before
	}
}

// withKey returns body with the key as the member of that name. It puts the key in front of
// the caller's bytes, and does not encode those anew: the order of members and the spelling
// of numbers are the caller's. The error wraps ErrInvalid.
func withKey(body []byte, name string, key childkey.Key) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, fmt.Errorf("%w: Body: not a JSON object, it cannot carry the key", ErrInvalid)
	}
	if _, given := members[name]; given {
		return nil, fmt.Errorf("%w: Body: there is a member %q already", ErrInvalid, name)
	}
	field, err := json.Marshal(map[string]string{name: key.String()})
	if err != nil {
		return nil, fmt.Errorf("%w: Body: %w", ErrInvalid, err)
	}
	rest := bytes.TrimSpace(body)[1:]
	field = field[:len(field)-1]
	if len(members) > 0 {
		field = append(field, ',')
	}
	return append(field, rest...), nil
}
