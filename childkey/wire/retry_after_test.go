package wire_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// retryAfter returns the header of an answer with a Retry-After and a Date.
func retryAfter(value, date string) http.Header {
	h := http.Header{"Retry-After": {value}}
	if date != "" {
		h.Set("Date", date)
	}
	return h
}

func TestRetryAfter_line(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	earlier := now.Add(-time.Hour).Format(http.TimeFormat) // the callee's clock is an hour behind
	tests := []struct {
		name, value, date string
		want              time.Duration
		ok                bool
	}{
		{"zero", "0", "", 0, true},
		{"seconds", "3600", "", time.Hour, true},
		{"seconds, whatever the date", "5", earlier, 5 * time.Second, true},
		{"white space", " 5 ", "", 5 * time.Second, true},
		{"leading zeros", "005", "", 5 * time.Second, true},
		{"most that fits", "9223372036", "", 9223372036 * time.Second, true},
		{"one more", "9223372037", "", forever, true},
		{"overflow", "10000000000", "", forever, true},
		{"overflow to a fraction", "18446744074", "", forever, true},
		{"largest int64", "9223372036854775807", "", forever, true},
		{"beyond int64", "99999999999999999999999", "", forever, true},
		{"negative", "-1", "", 0, false},
		{"sign", "+1", "", 0, false},
		{"fraction", "1.5", "", 2 * time.Second, true},
		{"fraction of two clocks", "299.997", "", 5 * time.Minute, true},
		{"fraction of zero", "300.0", "", 5 * time.Minute, true},
		{"small fraction", "0.001", "", time.Second, true},
		{"fraction of the most", "9223372036.5", "", forever, true},
		{"fraction of the largest int64", "9223372036854775807.5", "", forever, true},
		{"two points", "1.5.5", "", 0, false},
		{"point without a fraction", "1.", "", 0, false},
		{"fraction alone", ".5", "", 0, false},
		{"exponent", "1e3", "", 0, false},
		{"empty", "", "", 0, false},
		{"word", "abc", "", 0, false},
		{"list", "1, 2", "", 0, false},
		{"RFC 3339", "2026-03-01T12:00:05Z", "", 0, false},

		{"IMF date", "Sun, 01 Mar 2026 12:00:05 GMT", "", 5 * time.Second, true},
		{"RFC 850 date", "Sunday, 01-Mar-26 12:00:05 GMT", "", 5 * time.Second, true},
		{"asctime date", "Sun Mar  1 12:00:05 2026", "", 5 * time.Second, true},
		{"RFC 1123 date in UTC", "Sun, 01 Mar 2026 12:00:05 UTC", "", 5 * time.Second, true},
		{"RFC 1123 date with a number", "Sun, 01 Mar 2026 13:00:05 +0100", "", 5 * time.Second, true},
		{"day of one digit", "Sun, 1 Mar 2026 12:00:05 GMT", "", 5 * time.Second, true},
		{"date in another zone", "Sun, 01 Mar 2026 12:00:05 PST", "", 0, false},
		{"by the callee's clock", "Sun, 01 Mar 2026 11:00:05 GMT", earlier, 5 * time.Second, true},
		{"Date is broken", "Sun, 01 Mar 2026 12:00:05 GMT", "yesterday", 5 * time.Second, true},
		{"past IMF date", "Thu, 01 Jan 1970 00:00:00 GMT", "", 0, true},
		{"past RFC 850 date", "Thursday, 01-Jan-70 00:00:00 GMT", "", 0, true},
		{"past by the callee's clock", "Sun, 01 Mar 2026 10:00:00 GMT", earlier, 0, true},
		{"far future", "Fri, 31 Dec 9999 23:59:59 GMT", "", forever, true},
		{"far past", "Sat, 01 Jan 0001 00:00:00 GMT", "", 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, ok := wire.RetryAfter(retryAfter(tt.value, tt.date), now)
			if got != tt.want || ok != tt.ok {
				t.Errorf("RetryAfter(%q, %q) = %v, %v, want %v, %v", tt.value, tt.date, got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		h    http.Header
		want time.Duration
		ok   bool
	}{
		{"nil", nil, 0, false},
		{"one", http.Header{"Retry-After": {"5"}}, 5 * time.Second, true},
		{"longest of two", http.Header{"Retry-After": {"5", "9", "7"}}, 9 * time.Second, true},
		{"broken one beside", http.Header{"Retry-After": {"soon", "5"}}, 5 * time.Second, true},
		{"all broken", http.Header{"Retry-After": {"soon", "-1"}}, 0, false},
		{"milliseconds alone", http.Header{"Retry-After-Ms": {"250"}}, 250 * time.Millisecond, true},
		{"Microsoft's", http.Header{"X-Ms-Retry-After-Ms": {" 250 "}}, 250 * time.Millisecond, true},
		{"seconds are rounded up", http.Header{"Retry-After": {"1"}, "Retry-After-Ms": {"250"}}, 250 * time.Millisecond, true},
		{"seconds ask for more", http.Header{"Retry-After": {"5"}, "Retry-After-Ms": {"4000"}}, 5 * time.Second, true},
		{"milliseconds ask for more", http.Header{"Retry-After": {"1"}, "Retry-After-Ms": {"2500"}}, 2500 * time.Millisecond, true},
		{"longest of two in milliseconds", http.Header{"Retry-After-Ms": {"1", "70"}, "X-Ms-Retry-After-Ms": {"60"}}, 70 * time.Millisecond, true},
		{"broken milliseconds", http.Header{"Retry-After": {"5"}, "Retry-After-Ms": {"4.5", "-1", "", "1e3"}}, 5 * time.Second, true},
		{"milliseconds overflow", http.Header{"Retry-After-Ms": {"9223372036855"}}, forever, true},
		{"milliseconds beyond int64", http.Header{"Retry-After-Ms": {"99999999999999999999"}}, forever, true},
		{
			"date by Date",
			http.Header{"Retry-After": {"Sun, 01 Mar 2026 11:00:05 GMT"}, "Date": {"Sun, 01 Mar 2026 11:00:00 GMT"}},
			5 * time.Second, true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, ok := wire.RetryAfter(tt.h, now)
			if got != tt.want || ok != tt.ok {
				t.Errorf("RetryAfter(%v) = %v, %v, want %v, %v", tt.h, got, ok, tt.want, tt.ok)
			}
		})
	}
}

// The milliseconds say the same wait as the seconds, more exactly.
func TestSetRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		wait        time.Duration
		seconds, ms string
		read        time.Duration
	}{
		{-time.Second, "1", "1", time.Millisecond},
		{0, "1", "1", time.Millisecond},
		{time.Microsecond, "1", "1", time.Millisecond},
		{250 * time.Millisecond, "1", "250", 250 * time.Millisecond},
		{250*time.Millisecond + 1, "1", "251", 251 * time.Millisecond},
		{time.Second, "1", "1000", time.Second},
		{1500 * time.Millisecond, "2", "1500", 1500 * time.Millisecond},
		{5*time.Second + 1, "6", "5001", 5001 * time.Millisecond},
		{-time.Hour, "1", "1", time.Millisecond},
		{forever, "9223372037", "9223372036855", forever},
	} {
		h := http.Header{}
		wire.SetRetryAfter(h, tt.wait)
		if got := h.Get(wire.HeaderRetryAfter); got != tt.seconds {
			t.Errorf("Retry-After of %v = %q, want %q", tt.wait, got, tt.seconds)
		}
		if got := h.Get(wire.HeaderRetryAfterMs); got != tt.ms {
			t.Errorf("Retry-After-Ms of %v = %q, want %q", tt.wait, got, tt.ms)
		}
		if got, _ := wire.RetryAfter(h, time.Now()); got != tt.read {
			t.Errorf("read back of %v = %v, want %v", tt.wait, got, tt.read)
		}
	}
}
