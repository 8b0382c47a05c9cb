package retry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// A frozenCall is a call as every attempt sends it.
type frozenCall struct {
	carrier   *carrier    // of the client
	header    http.Header // the caller's
	keyed     bool        // the request's own line with the key is sent
	key       string      // as it is sent; empty: not by itself, as those that follow
	cancels   string
	firstSent string
	body      payload
	close     bool // the connection, after the answer
}

// ours are the request headers that belong to the client. Prefer does not: it
// is the caller's wish.
var ours = slices.Concat(Fanonce().Headers, []string{wire.HeaderKey})

// freeze checks the call, copies it and returns its URL. Its error wraps ErrInvalid.
func (f *frozenCall) freeze(call *Call, c *carrier) (*url.URL, error) {
	if !isToken(call.Method) || call.Method == http.MethodConnect {
		return nil, fmt.Errorf("%w: Method: %q is no HTTP method", ErrInvalid, call.Method)
	}
	u, err := call.target()
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(c.check(call.Key), call.Limits.check()); err != nil {
		return nil, err
	}
	f.carrier = c
	if err = f.freezeHeader(call); err != nil {
		return nil, err
	}
	f.freezeFields(call)
	f.close = call.close
	return u, f.freezeBody(call)
}

func (f *frozenCall) freezeBody(call *Call) error {
	switch {
	case f.carrier.bodyField != "" && !call.Key.IsZero() && (call.size() > 0 || !isIdempotent(call.Method)):
		if call.Stream != nil {
			return fmt.Errorf("%w: a Stream cannot carry the key in %q", ErrInvalid, f.carrier.bodyField)
		}
		body, err := withKey(call.Body, f.carrier.bodyField, call.Key)
		f.body = bytesPayload(body)
		return err
	case call.Stream == nil && call.owned:
		f.body = bytesPayload(call.Body)
	case call.Stream == nil:
		f.body = bytesPayload(slices.Clone(call.Body))
	case call.Body != nil:
		return fmt.Errorf("%w: Body and Stream are both set", ErrInvalid)
	case call.Stream.open == nil:
		return errZeroStream
	default:
		f.body.stream = call.Stream
	}
	return nil
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

// freezeHeader checks the caller's header and copies it, names in one spelling. Without a
// Profile the header of a request stays as it is.
func (f *frozenCall) freezeHeader(call *Call) error {
	c := f.carrier
	f.header = make(http.Header, len(call.Header))
	asGiven := call.owned && c.asGiven
	for h, values := range call.Header {
		switch {
		case asGiven && (call.Key == call.given || !strings.EqualFold(h, c.keyHeader)):
		case !c.owns(h):
		case call.owned:
			continue // replaced, or not meant for the service
		default:
			return fmt.Errorf("%w: Header: %s is the client's own; use the Call's fields", ErrInvalid, h)
		}
		if err := checkHeader(h, values); err != nil {
			return err
		}
		f.keyed = f.keyed || asGiven && strings.EqualFold(h, c.keyHeader)
		if !asGiven {
			h = http.CanonicalHeaderKey(h)
		}
		f.header[h] = append(f.header[h], values...)
	}
	return nil
}

// freezeFields spells the headers of ours that stay the same.
func (f *frozenCall) freezeFields(call *Call) {
	c := f.carrier
	asGiven := call.owned && c.asGiven // then the request has them
	switch {
	case call.Key.IsZero(), c.bodyField != "", f.keyed:
	case c.bare:
		f.key = call.Key.String()
	default:
		f.key = call.Key.Quoted()
	}
	if asGiven {
		return
	}
	if c.cancels && !call.Cancels.IsZero() {
		f.cancels = call.Cancels.Quoted()
	}
	if c.firstSent && !call.FirstSent.IsZero() {
		f.firstSent = wire.FormatFirstSent(call.FirstSent)
	}
}

// owns reports whether the header, in any case, is the client's own.
func (c *carrier) owns(name string) bool {
	return strings.EqualFold(name, c.keyHeader) ||
		slices.ContainsFunc(ours, func(h string) bool { return strings.EqualFold(h, name) })
}

// connection are the headers that HTTP/2 forbids (RFC 9113 section 8.2.2), with the values
// that net/http accepts.
var connection = map[string][]string{
	"Connection":        {"", "close", "keep-alive"},
	"Transfer-Encoding": {"", "chunked"},
	"Upgrade":           {""},
}

// checkHeader refuses what net/http would refuse only when it sends: with a
// connection in hand, nothing shows that nothing was sent.
func checkHeader(name string, values []string) error {
	if !isToken(name) {
		return fmt.Errorf("%w: Header: %q is no header name", ErrInvalid, name)
	}
	if passes, ok := connection[http.CanonicalHeaderKey(name)]; ok && len(values) > 0 {
		if len(values) > 1 || !slices.Contains(passes, strings.ToLower(values[0])) {
			return fmt.Errorf("%w: Header: %s belongs to the connection, which the client makes", ErrInvalid, name)
		}
	}
	for _, v := range values {
		if i := control(v); i >= 0 {
			return fmt.Errorf("%w: Header: %s has a control character at offset %d", ErrInvalid, name, i)
		}
	}
	return nil
}

// control returns the offset of the first control character that no header may have; -1 if
// there is none.
func control(value string) int {
	return strings.IndexFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// isWellFormed reports whether req can be sent over HTTP at all.
func isWellFormed(req *http.Request) bool {
	if req.URL == nil || req.Header == nil || req.URL.Scheme == "" || !isHTTP(req.URL) || req.URL.Host == "" {
		return false
	}
	if req.Method != "" && !isToken(req.Method) || !isValidHost(cmp.Or(req.Host, req.URL.Host)) {
		return false
	}
	for _, header := range []http.Header{req.Header, req.Trailer} {
		for name, values := range header {
			if !isToken(name) || slices.ContainsFunc(values, func(v string) bool { return control(v) >= 0 }) {
				return false
			}
		}
	}
	return true
}

// isHTTP reports whether the scheme of u is HTTP's, or is missing.
func isHTTP(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "" }

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// isToken reports whether s is a token (RFC 9110 section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// isIdempotent reports whether the method is so by definition (RFC 9110 section
// 9.2.2).
func isIdempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// target returns the URL that the call goes to, as it is sent: checked, and without a
// fragment. Its error wraps ErrInvalid.
func (c *Call) target() (*url.URL, error) {
	if c.url != nil {
		own := *c.url
		return &own, prepareURL(&own, c.host)
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: URL: not parsable", ErrInvalid)
	}
	return u, prepareURL(u, "")
}

// prepareURL checks that a request to u can be sent, and removes the fragment. A host that
// is not empty replaces the host of u. Its error never quotes the URL, which may hold a
// secret.
func prepareURL(u *url.URL, host string) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%w: URL: scheme %q is neither http nor https", ErrInvalid, u.Scheme)
	case u.Hostname() == "":
		return fmt.Errorf("%w: URL: no host", ErrInvalid)
	}
	if given := u.Port(); given != "" {
		if _, err := strconv.ParseUint(given, 10, 16); err != nil {
			return fmt.Errorf("%w: URL: port %s is not from 1 to 65535", ErrInvalid, given)
		}
	}
	if host = cmp.Or(host, u.Host); !isValidHost(host) {
		return fmt.Errorf("%w: URL: host %q", ErrInvalid, host)
	}
	u.Fragment, u.RawFragment = "", ""
	return nil
}

// isValidHost reports whether net/http sends s as the host: what RFC 3986 section
// 3.2.2 allows, and international names, which it converts.
func isValidHost(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x80 && !isAlphanumeric(c) && strings.IndexByte("!$%&'()*+,-.:;=[]_~", c) < 0 {
			return false
		}
	}
	return true
}
