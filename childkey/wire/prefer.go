package wire

import (
	"strings"
	"time"
)

// ParsePreferWait returns how long the sender of a request would wait, by the lines of its
// [HeaderPrefer]: wait=N, in whole seconds (RFC 7240 section 4.3). ok is false if no line
// has such a number. A preference is a wish, so no text in it is an error. The first of
// several counts. A number too large for a Duration becomes the largest Duration: bound it.
func ParsePreferWait(values []string) (wait time.Duration, ok bool) {
	for _, line := range values {
		for line != "" {
			var preference string
			preference, line = cutUnquoted(line, ',')
			preference, _ = cutUnquoted(preference, ';') // parameters
			name, value, _ := strings.Cut(preference, "=")
			if strings.EqualFold(strings.Trim(name, " \t"), "wait") {
				return parseUnits(strings.Trim(strings.Trim(value, " \t"), `"`), time.Second)
			}
		}
	}
	return 0, false
}

// cutUnquoted slices s around the first sep that is not in a quoted string
// (RFC 9110 section 5.6.4).
func cutUnquoted(s string, sep byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == sep && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
