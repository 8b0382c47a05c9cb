package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fanonce/fanonce/childkey"
)

// ErrBadHeader is wrapped by the errors of this package's parsers: a header is
// repeated or malformed. No error text holds a key.
var ErrBadHeader = errors.New("wire: bad header")

// ParseKeyHeader returns the key in the lines of a request's [HeaderKey] or
// [HeaderCancels]; present is false without a line. One line is allowed, with one key: a
// structured-field string (RFC 9651 section 3.3.3), whose parameters are checked and
// ignored, or the bare text of the key. A bare text is taken as it is, with any ";" in it,
// but must not begin with "(": that is an inner list.
//
// Its error wraps [ErrBadHeader], and the error of [childkey.Parse] if the text is not a
// key. present is then true.
func ParseKeyHeader(values []string) (key childkey.Key, present bool, err error) {
	if len(values) == 0 {
		return childkey.Key{}, false, nil
	}
	key, err = parseKey(values)
	if err != nil {
		return childkey.Key{}, true, fmt.Errorf("%w: key: %w", ErrBadHeader, err)
	}
	return key, true, nil
}

var (
	errRepeated   = errors.New("more than one line")
	errInnerList  = errors.New("an inner list")
	errOpenQuote  = errors.New("no closing quote")
	errParameters = errors.New("malformed parameters")
)

func parseKey(values []string) (childkey.Key, error) {
	if len(values) > 1 {
		return childkey.Key{}, errRepeated
	}
	text := strings.Trim(values[0], " \t")
	switch {
	case strings.HasPrefix(text, "("):
		return childkey.Key{}, errInnerList
	case !strings.HasPrefix(text, `"`):
		return childkey.Parse(text)
	}
	// A key has neither quotes nor backslashes, so that no escape needs to be
	// undone: the next quote ends the string, and Parse refuses a backslash.
	inner, params, ok := strings.Cut(text[1:], `"`)
	if !ok {
		return childkey.Key{}, errOpenQuote
	}
	key, err := childkey.Parse(inner)
	if err != nil {
		return childkey.Key{}, err
	}
	if !validParameters(params) {
		return childkey.Key{}, errParameters
	}
	return key, nil
}

// validParameters reports whether s is the parameters of a structured-field
// item (RFC 9651 section 3.1.2), of which there may be none.
func validParameters(s string) bool {
	for s != "" {
		if s[0] != ';' {
			return false
		}
		s = strings.TrimLeft(s[1:], " ")
		n := span(s, parameterKeyByte)
		if n == 0 || s[0] != '*' && (s[0] < 'a' || s[0] > 'z') {
			return false
		}
		s = s[n:]
		if !strings.HasPrefix(s, "=") {
			continue // a parameter without a value is true
		}
		n = bareItemLen(s[1:])
		if n == 0 {
			return false
		}
		s = s[1+n:]
	}
	return true
}

// bareItemLen returns the length of the bare item that s begins with, 0 if it
// begins with none. Numbers, tokens, booleans, dates and byte sequences are
// told from garbage by their bytes alone: their values are not used.
func bareItemLen(s string) int {
	if !strings.HasPrefix(s, `"`) {
		return span(s, bareItemByte)
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return 0
			}
		case c < 0x20 || c > 0x7e:
			return 0
		}
	}
	return 0
}

// span returns how many bytes at the start of s satisfy ok.
func span(s string, ok func(byte) bool) int {
	for i := range len(s) {
		if !ok(s[i]) {
			return i
		}
	}
	return len(s)
}

func parameterKeyByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("_-.*", c) >= 0
}

func bareItemByte(c byte) bool {
	return tokenByte(c) || strings.IndexByte(":/?@=", c) >= 0
}

// tokenByte reports whether c may be in a token (RFC 9110 section 5.6.2).
func tokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
