package wire

import (
	"fmt"
	"strings"
	"time"
)

// ParseFirstSent returns the time that the lines of a request's
// [HeaderFirstSent] spell; present is false if there is no line. One line is
// allowed, in RFC 3339 and UTC (Z, or an offset of zero). Whether the time is
// plausible is not asked. Its error wraps [ErrBadHeader]; present is true with
// it.
func ParseFirstSent(values []string) (t time.Time, present bool, err error) {
	switch len(values) {
	case 0:
		return time.Time{}, false, nil
	case 1:
	default:
		return time.Time{}, true, fmt.Errorf("%w: first-sent: %w", ErrBadHeader, errRepeated)
	}
	text := strings.Trim(values[0], " \t")
	t, err = time.Parse(time.RFC3339, text)
	// time.Parse is laxer than RFC 3339: it takes an hour of one digit and a
	// decimal comma, which other languages' callees refuse.
	if err != nil || text[len("2006-01-02T15")] != ':' || strings.Contains(text, ",") {
		return time.Time{}, true, fmt.Errorf("%w: first-sent: not in RFC 3339", ErrBadHeader)
	}
	if _, offset := t.Zone(); offset != 0 {
		return time.Time{}, true, fmt.Errorf("%w: first-sent: not in UTC", ErrBadHeader)
	}
	return t.UTC(), true, nil
}

// FormatFirstSent returns t as the value of [HeaderFirstSent], to the
// nanosecond.
func FormatFirstSent(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
