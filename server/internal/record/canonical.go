package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth is how deep arrays and objects may be nested in a body that has a canonical form.
const maxJSONDepth = 512

var errNotCanonical = errors.New("record: no canonical JSON")

// CanonicalJSON returns the canonical form of a JSON value (RFC 8785), without the members of the outermost object that
// ignore names. ok is false for a body that has none: it is not JSON in UTF-8, repeats a member's name, or has a number that a
// double cannot hold.
func CanonicalJSON(body []byte, ignore []string) (canonical []byte, ok bool) {
	if !utf8.Valid(body) || loneSurrogate(body) {
		return nil, false
	}
	c := &canonicalizer{dec: json.NewDecoder(bytes.NewReader(body)), ignore: ignore}
	c.dec.UseNumber()
	if err := c.value(0); err != nil {
		return nil, false
	}
	_, err := c.dec.Token()
	return c.out, errors.Is(err, io.EOF) // otherwise more bytes follow the value
}

// A canonicalizer copies one JSON value from dec to out.
type canonicalizer struct {
	dec    *json.Decoder
	ignore []string // members of the outermost object
	out    []byte
}

func (c *canonicalizer) value(depth int) error {
	token, err := c.dec.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		if depth == maxJSONDepth {
			return errNotCanonical
		}
		if v == '[' {
			return c.array(depth + 1)
		}
		return c.object(depth + 1)
	case string:
		c.out = appendJSONString(c.out, v)
	case json.Number:
		text, ok := canonicalNumber(v.String())
		if !ok {
			return errNotCanonical
		}
		c.out = append(c.out, text...)
	case bool:
		c.out = strconv.AppendBool(c.out, v)
	default:
		c.out = append(c.out, "null"...)
	}
	return nil
}

func (c *canonicalizer) array(depth int) error {
	c.out = append(c.out, '[')
	for first := true; c.dec.More(); first = false {
		if !first {
			c.out = append(c.out, ',')
		}
		if err := c.value(depth); err != nil {
			return err
		}
	}
	c.out = append(c.out, ']')
	_, err := c.dec.Token()
	return err
}

// object reads all members before it writes them in order.
func (c *canonicalizer) object(depth int) error {
	outer := c.out
	members := make(map[string][]byte)
	for c.dec.More() {
		token, err := c.dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // the decoder knows no other member names
		if _, twice := members[name]; twice {
			return errNotCanonical
		}
		c.out = nil
		if err := c.value(depth); err != nil {
			return err
		}
		members[name] = c.out
	}
	if depth == 1 {
		for _, name := range c.ignore {
			delete(members, name)
		}
	}
	c.out = appendMembers(outer, members)
	_, err := c.dec.Token()
	return err
}

// appendMembers orders by UTF-16 code units, as RFC 8785 section 3.2.3 asks.
func appendMembers(out []byte, members map[string][]byte) []byte {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	})
	out = append(out, '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendJSONString(out, name), ':')
		out = append(out, members[name]...)
	}
	return append(out, '}')
}

// appendJSONString escapes only what must be (RFC 8785 section 3.2.2.2).
func appendJSONString(out []byte, s string) []byte {
	out = append(out, '"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			out = append(out, '\\', byte(r))
		case '\b':
			out = append(out, `\b`...)
		case '\t':
			out = append(out, `\t`...)
		case '\n':
			out = append(out, `\n`...)
		case '\f':
			out = append(out, `\f`...)
		case '\r':
			out = append(out, `\r`...)
		default:
			if r < ' ' {
				out = append(out, `\u00`...)
				out = append(out, "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
			} else {
				out = utf8.AppendRune(out, r)
			}
		}
	}
	return append(out, '"')
}

// loneSurrogate reports whether an escape stands for half of a character beyond
// 16 bits. The decoder replaces it with U+FFFD, and different strings would
// look the same.
func loneSurrogate(body []byte) bool {
	high := false // the escape before this place was the first half of a pair
	for i := 0; i < len(body); {
		size, r := 1, rune(0)
		if body[i] == '\\' && i+1 < len(body) {
			size = 2
			if n, err := strconv.ParseUint(string(body[i+2:min(i+6, len(body))]), 16, 16); body[i+1] == 'u' && err == nil {
				size, r = 6, rune(n)
			}
		}
		low := r >= 0xDC00 && r <= 0xDFFF
		if high != low {
			return true
		}
		high = r >= 0xD800 && r <= 0xDBFF
		i += size
	}
	return high
}

// canonicalNumber writes a number as ECMAScript does (RFC 8785 section
// 3.2.2.3); false if the nearest double is not the number in text.
func canonicalNumber(text string) (string, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "", false
	}
	b, err := json.Marshal(f) // the same form, but for the zero below
	if err != nil {
		return "", false
	}
	short := string(b)
	if f == 0 {
		short = "0"
	}
	return short, sameDecimal(text, short)
}

// sameDecimal reports whether two JSON numbers are the same number.
func sameDecimal(a, b string) bool {
	da, ea, okA := decimal(a)
	db, eb, okB := decimal(b)
	return okA && okB && da == db && ea == eb
}

// decimal returns the significant digits of a JSON number, with its sign, and
// the power of ten of its last digit. For zero it returns "" and 0.
func decimal(text string) (digits string, exponent int, ok bool) {
	mantissa := text
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		n, err := strconv.Atoi(text[i+1:])
		if err != nil {
			return "", 0, false
		}
		mantissa, exponent = text[:i], n
	}
	sign := ""
	if rest, negative := strings.CutPrefix(mantissa, "-"); negative {
		mantissa, sign = rest, "-"
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if trimmed == "" {
		return "", 0, true
	}
	return sign + trimmed, exponent, true
}
