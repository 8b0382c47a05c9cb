package wire

import (
	"fmt"
	"strings"
	"time"
)

// ParseFirstSent returns the time in the lines of a request's [HeaderFirstSent]; present is
// false without a line. One line is allowed, in RFC 3339 and UTC (Z, or an offset of zero),
// from 1970 on. The time may be in the future: the caller checks that. Its error wraps
// [ErrBadHeader]; present is then true.
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
	t = t.UTC()
	if t.IsZero() || CheckFirstSent(t) != nil {
		return time.Time{}, true, fmt.Errorf("%w: first-sent: before 1970", ErrBadHeader)
	}
	return t, true, nil
}

// earliest and latest bound the times that a request can have been sent at. Times before
// them are mistakes, such as the zero time of some language, and not every store can keep
// them. RFC 3339 cannot write later times.
var (
	earliest = time.Unix(0, 0)
	latest   = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// CheckFirstSent returns an error wrapping [ErrBadHeader] for a time that no
// [HeaderFirstSent] can carry: before 1970 or after the year 9999. The zero time is
// accepted: it means that no time is known.
func CheckFirstSent(t time.Time) error {
	if !t.IsZero() && (t.Before(earliest) || !t.Before(latest)) {
		return fmt.Errorf("%w: first-sent: not from 1970 to 9999", ErrBadHeader)
	}
	return nil
}

// FormatFirstSent returns t as the value of [HeaderFirstSent], to the
// nanosecond.
func FormatFirstSent(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
