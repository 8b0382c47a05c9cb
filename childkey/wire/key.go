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

// ParseKeyHeader returns the key that the lines of a request's [HeaderKey] (or
// [HeaderCancels]) spell; present is false if there is no line. One line is
// allowed, with one key: a structured-field string (RFC 9651 section 3.3.3),
// whose parameters are checked and ignored, or the bare text of the key. A bare
// text is taken as it is, with any ";" in it, but must not begin with "(": that
// is an inner list.
//
// Its error wraps [ErrBadHeader], and the error of [childkey.Parse] where the
// text is no key; present is true with it.
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
