package wire

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxRetryCount is the largest number that [HeaderRetryAttempt] and
// [HeaderRetryAllowance] may hold.
const MaxRetryCount = 16

// ParseRetryAttempt returns the attempt, from 1 to [MaxRetryCount], that the
// lines of a request's [HeaderRetryAttempt] name. It returns 0, no usable
// number, if there is no line, more than one, or one that says anything else:
// what [Inbound.Attempt] wants.
func ParseRetryAttempt(values []string) int {
	n, _ := parseCount(values)
	return n
}

// ParseRetryAllowance returns how many retries, from 0 to [MaxRetryCount], the
// lines of a request's [HeaderRetryAllowance] leave to the calls below it. It
// returns -1 if there is no line, and 0 if there is more than one, or one that
// says anything else: a broken header never allows more.
func ParseRetryAllowance(values []string) int {
	if len(values) == 0 {
		return -1
	}
	n, _ := parseCount(values)
	return n
}

// FormatRetryAttempt returns the value of [HeaderRetryAttempt] for the attempt,
// which counts from 1; beyond [MaxRetryCount] it stays there.
func FormatRetryAttempt(attempt int) string { return strconv.Itoa(min(max(attempt, 1), MaxRetryCount)) }

// FormatRetryAllowance returns the value of [HeaderRetryAllowance] that leaves n
// retries, at least 0 and at most [MaxRetryCount].
func FormatRetryAllowance(n int) string { return strconv.Itoa(min(max(n, 0), MaxRetryCount)) }

// ParseRequestTimeout returns how long the sender of a request waits for this
// attempt, by the lines of its [HeaderRequestTimeout]; ok is false, and the
// sender said nothing, if there is no line, more than one, or one that is not a
// number of milliseconds from 1 to what a Duration holds.
func ParseRequestTimeout(values []string) (timeout time.Duration, ok bool) {
	text, ok := single(values)
	if !ok || !digits(text) {
		return 0, false
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 1 || ms > int64(math.MaxInt64/time.Millisecond) {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// FormatRequestTimeout returns timeout as the value of [HeaderRequestTimeout]:
// whole milliseconds, rounded down but at least 1.
func FormatRequestTimeout(timeout time.Duration) string {
	return strconv.FormatInt(max(timeout.Milliseconds(), 1), 10)
}

// ParseFlag returns what the lines of [HeaderReplayed] or [HeaderShouldRetry]
// say; ok is false unless there is one line with true or false.
func ParseFlag(values []string) (flag, ok bool) {
	switch text, _ := single(values); text {
	case "true":
		return true, true
	case "false":
		return false, true
	default:
		return false, false
	}
}

func parseCount(values []string) (n int, ok bool) {
	text, ok := single(values)
	if !ok || !digits(text) {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > MaxRetryCount {
		return 0, false
	}
	return n, true
}

// single returns the one line there is, trimmed.
func single(values []string) (string, bool) {
	if len(values) != 1 {
		return "", false
	}
	return strings.Trim(values[0], " \t"), true
}
