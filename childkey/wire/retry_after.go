package wire

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ParseRetryAfter returns how long the value of a [HeaderRetryAfter] (RFC 9110
// section 10.2.3) asks to wait; ok is false if value is neither whole seconds
// nor an HTTP date in any of its three forms. A date is taken relative to the
// answer's Date header, date, so that the clocks need not agree, and to now if
// date is empty or no date. A date in the past is 0. What a Duration cannot
// hold becomes the largest Duration: cap it.
func ParseRetryAfter(value, date string, now time.Time) (wait time.Duration, ok bool) {
	value = strings.Trim(value, " \t")
	if wait, ok := parseUnits(value, time.Second); ok {
		return wait, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if sent, err := http.ParseTime(date); err == nil {
		now = sent
	}
	return max(at.Sub(now), 0), true // Sub saturates
}

// milliseconds are the headers in which some callees say more exactly what they round
// up in Retry-After: whole milliseconds.
var milliseconds = []string{HeaderRetryAfterMs, "X-Ms-Retry-After-Ms"}

// RetryAfter is [ParseRetryAfter] for the headers of an answer. Of several
// lines the longest wait counts: nobody is called earlier than it asked. Milliseconds
// (Retry-After-Ms, X-Ms-Retry-After-Ms) count as a line does, and in place of the
// seconds if these are the same, rounded up.
func RetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for _, value := range h.Values(HeaderRetryAfter) {
		if w, valid := ParseRetryAfter(value, h.Get("Date"), now); valid {
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

// retryAfterMilliseconds returns the longest wait that is given in milliseconds.
func retryAfterMilliseconds(h http.Header) (wait time.Duration, ok bool) {
	for _, name := range milliseconds {
		for _, value := range h.Values(name) {
			if w, valid := parseUnits(strings.Trim(value, " \t"), time.Millisecond); valid {
				wait, ok = max(wait, w), true
			}
		}
	}
	return wait, ok
}

// FormatRetryAfter returns wait as the value of [HeaderRetryAfter]: whole
// seconds rounded up and at least 1, so that no caller comes too early or spins.
func FormatRetryAfter(wait time.Duration) string {
	if rest := wait % time.Second; rest > 0 && wait < math.MaxInt64-time.Second {
		wait += time.Second - rest
	}
	return formatSeconds(max(wait, time.Second))
}

// SetRetryAfter sets [HeaderRetryAfter] and [HeaderRetryAfterMs] of an answer to wait,
// both at least as long as wait. A wait below a millisecond counts as a millisecond.
func SetRetryAfter(h http.Header, wait time.Duration) {
	h.Set(HeaderRetryAfter, FormatRetryAfter(wait))
	ms := int64(max(wait, time.Millisecond) / time.Millisecond)
	if wait%time.Millisecond > 0 && wait > time.Millisecond {
		ms++
	}
	h.Set(HeaderRetryAfterMs, strconv.FormatInt(ms, 10))
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

func formatSeconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// digits reports whether text is one or more decimal digits: what strconv
// takes, without its signs.
func digits(text string) bool {
	return text != "" && span(text, func(c byte) bool { return '0' <= c && c <= '9' }) == len(text)
}
