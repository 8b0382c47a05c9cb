package wire

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns how long the header of an answer asks its caller to wait. ok is false
// if no line of it can be read. The names in h have their canonical form, as in an
// http.Header.
//
// A line of [HeaderRetryAfter] (RFC 9110 section 10.2.3) has whole seconds, or an HTTP date
// in one of its three forms. Servers that subtract clocks send a fraction, which is rounded
// up, and some write the zone of a date as UTC or as a number. A date is relative to the answer's Date, because the clocks of
// caller and callee can differ. Without a readable Date it is relative to now. A date in the
// past is 0. A wait that a Duration cannot hold is the largest Duration: bound it.
//
// The longest of several lines counts, so that no callee is called too early. A line in
// milliseconds (Retry-After-Ms, X-Ms-Retry-After-Ms) counts like any other line. If it is the
// same wait before it was rounded up to seconds, it replaces the seconds.
func RetryAfter(h map[string][]string, now time.Time) (wait time.Duration, ok bool) {
	for _, value := range h[HeaderRetryAfter] {
		if w, valid := parseRetryAfter(value, h["Date"], now); valid {
			wait, ok = max(wait, w), true
		}
	}
	finer, found := retryAfterMilliseconds(h)
	switch {
	case !found:
		return wait, ok
	case ok && finer <= wait && wait-finer < time.Second:
		return finer, true
	}
	return max(wait, finer), true
}

// parseRetryAfter reads one line of HeaderRetryAfter; date is the lines of Date.
func parseRetryAfter(value string, date []string, now time.Time) (wait time.Duration, ok bool) {
	value = strings.Trim(value, " \t")
	if wait, ok := parseRounded(value, time.Second); ok {
		return wait, true
	}
	at, ok := parseHTTPDate(value)
	if !ok {
		return 0, false
	}
	if len(date) > 0 {
		if sent, ok := parseHTTPDate(date[0]); ok {
			now = sent
		}
	}
	return max(at.Sub(now), 0), true // Sub saturates
}

// httpDates are the three forms of an HTTP date (RFC 9110 section 5.6.7), and the first one with the zones that servers
// write for GMT.
var httpDates = []string{
	"Mon, 2 Jan 2006 15:04:05 GMT", "Mon, 2 Jan 2006 15:04:05 UTC", "Mon, 2 Jan 2006 15:04:05 -0700", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC,
}

// parseHTTPDate is http.ParseTime with more zones; this package must not import net/http.
func parseHTTPDate(text string) (time.Time, bool) {
	for _, layout := range httpDates {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// milliseconds are the headers with the same wait in whole milliseconds, before it is
// rounded up to seconds.
var milliseconds = []string{HeaderRetryAfterMs, "X-Ms-Retry-After-Ms"}

// retryAfterMilliseconds returns the longest wait that is given in milliseconds.
func retryAfterMilliseconds(h map[string][]string) (wait time.Duration, ok bool) {
	for _, name := range milliseconds {
		for _, value := range h[name] {
			if w, valid := parseRounded(strings.Trim(value, " \t"), time.Millisecond); valid {
				wait, ok = max(wait, w), true
			}
		}
	}
	return wait, ok
}

// SetRetryAfter sets [HeaderRetryAfter] and [HeaderRetryAfterMs] in the header of an answer.
// Neither asks for less than wait. Seconds are rounded up and are at least 1, so that no
// caller comes too early or spins. Milliseconds are rounded up and are at least 1. The names
// in h have their canonical form, as in an http.Header.
func SetRetryAfter(h map[string][]string, wait time.Duration) {
	h[HeaderRetryAfter] = []string{formatUnits(max(wait, time.Second), time.Second)}
	h[HeaderRetryAfterMs] = []string{formatUnits(max(wait, time.Millisecond), time.Millisecond)}
}

// formatUnits returns d in whole units, rounded up.
func formatUnits(d, unit time.Duration) string {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}

// parseUnits returns how long the whole units are that text, decimal digits, spells;
// at most the largest Duration.
func parseUnits(text string, unit time.Duration) (time.Duration, bool) {
	if !digits(text) {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > int64(math.MaxInt64/unit) {
		return math.MaxInt64, true
	}
	return time.Duration(n) * unit, true
}

// parseRounded is parseUnits for a number that may have a fraction, which is rounded up.
func parseRounded(text string, unit time.Duration) (time.Duration, bool) {
	whole, fraction, found := strings.Cut(text, ".")
	wait, ok := parseUnits(whole, unit)
	if !ok || found && !digits(fraction) {
		return 0, false
	}
	if strings.Trim(fraction, "0") != "" {
		wait += min(unit, math.MaxInt64-wait)
	}
	return wait, true
}

// digits reports whether text is one or more decimal digits: what strconv
// takes, without its signs.
func digits(text string) bool {
	return text != "" && span(text, func(c byte) bool { return '0' <= c && c <= '9' }) == len(text)
}
