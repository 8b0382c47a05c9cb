package wire

import (
	"strings"
	"time"
)

// ParsePreferWait returns how long the lines of a request's [HeaderPrefer] say
// that its sender would wait (wait=N, whole seconds; RFC 7240 section 4.3); ok
// is false if they do not say, or not with a number. Preferences are wishes, so
// that nothing in them is an error. Of several, the first counts. A number too
// large for a Duration becomes the largest Duration: cap it.
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

// FormatPreferWait returns the value of [HeaderPrefer] that asks for wait, in
// whole seconds rounded down; a negative wait counts as zero.
func FormatPreferWait(wait time.Duration) string { return "wait=" + formatSeconds(max(wait, 0)) }

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
