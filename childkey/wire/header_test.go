package wire_test

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
)

const forever = time.Duration(math.MaxInt64)

func TestParseFirstSent(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 30, 15, 0, time.UTC)
	tests := []struct {
		name    string
		values  []string
		want    time.Time
		present bool
		ok      bool
	}{
		{"absent", nil, time.Time{}, false, true},
		{"seconds", []string{"2026-03-01T12:30:15Z"}, at, true, true},
		{"nanoseconds", []string{"2026-03-01T12:30:15.123456789Z"}, at.Add(123456789), true, true},
		{"offset of zero", []string{"2026-03-01T12:30:15+00:00"}, at, true, true},
		{"empty", []string{""}, time.Time{}, true, false},
		{"two lines", []string{"2026-03-01T12:30:15Z", "2026-03-01T12:30:15Z"}, time.Time{}, true, false},
		{"other offset", []string{"2026-03-01T13:30:15+01:00"}, time.Time{}, true, false},
		{"no offset", []string{"2026-03-01T12:30:15"}, time.Time{}, true, false},
		{"one digit for the hour", []string{"2026-03-01T2:30:15Z"}, time.Time{}, true, false},
		{"comma for the fraction", []string{"2026-03-01T12:30:15,5Z"}, time.Time{}, true, false},
		{"no such day", []string{"2026-02-30T12:30:15Z"}, time.Time{}, true, false},
		{"HTTP date", []string{"Sun, 01 Mar 2026 12:30:15 GMT"}, time.Time{}, true, false},
		{"year 0", []string{"0000-01-01T00:00:00Z"}, time.Time{}, true, false},
		{"zero time of Go", []string{"0001-01-01T00:00:00Z"}, time.Time{}, true, false},
		{"before 1970", []string{"1969-12-31T23:59:59.999999999Z"}, time.Time{}, true, false},
		{"1970", []string{"1970-01-01T00:00:00Z"}, time.Unix(0, 0), true, true},
		{"last", []string{"9999-12-31T23:59:59Z"}, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), true, true},
		{"unix time", []string{"1772368215"}, time.Time{}, true, false},
		{"something behind", []string{"2026-03-01T12:30:15Z, x"}, time.Time{}, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, present, err := wire.ParseFirstSent(tt.values)
			require.Equal(t, tt.present, present)
			require.True(t, got.Equal(tt.want), "got %v, want %v", got, tt.want)
			if tt.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, wire.ErrBadHeader)
			}
		})
	}
}

func TestCheckFirstSent(t *testing.T) {
	t.Parallel()
	for _, ok := range []time.Time{{}, time.Unix(0, 0), time.Now(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		require.NoError(t, wire.CheckFirstSent(ok), ok)
	}
	for _, bad := range []time.Time{
		time.Time{}.Add(1), time.Time{}.Add(-1), time.Unix(0, -1), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		require.ErrorIs(t, wire.CheckFirstSent(bad), wire.ErrBadHeader, bad)
	}
}

func TestFormatFirstSent(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 13, 30, 15, 1000, time.FixedZone("CET", 3600))
	require.Equal(t, "2026-03-01T12:30:15.000001Z", wire.FormatFirstSent(at))
	got, _, err := wire.ParseFirstSent([]string{wire.FormatFirstSent(at)})
	require.NoError(t, err)
	require.True(t, got.Equal(at))
}

func TestParsePreferWait(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		values []string
		want   time.Duration
		ok     bool
	}{
		{"absent", nil, 0, false},
		{"empty", []string{""}, 0, false},
		{"wait", []string{"wait=5"}, 5 * time.Second, true},
		{"zero", []string{"wait=0"}, 0, true},
		{"case and white space", []string{" WAIT = 5 "}, 5 * time.Second, true},
		{"quoted", []string{`wait="5"`}, 5 * time.Second, true},
		{"with parameter", []string{"wait=5; x=1"}, 5 * time.Second, true},
		{"among others", []string{"respond-async, wait=5, return=minimal"}, 5 * time.Second, true},
		{"on another line", []string{"return=minimal", "wait=5"}, 5 * time.Second, true},
		{"first counts", []string{"wait=5, wait=9"}, 5 * time.Second, true},
		{"first counts, even if broken", []string{"wait=x, wait=9"}, 0, false},
		{"inside a string", []string{`note="a, wait=9", wait=5`}, 5 * time.Second, true},
		{"inside a string with an escape", []string{`note="a\", wait=9", wait=5`}, 5 * time.Second, true},
		{"in an open string", []string{`note="a, wait=9`}, 0, false},
		{"as a parameter", []string{"respond-async; wait=9"}, 0, false},
		{"another name", []string{"waiting=5"}, 0, false},
		{"no number", []string{"wait=soon"}, 0, false},
		{"no value", []string{"wait"}, 0, false},
		{"empty value", []string{"wait="}, 0, false},
		{"negative", []string{"wait=-1"}, 0, false},
		{"sign", []string{"wait=+1"}, 0, false},
		{"fraction", []string{"wait=1.5"}, 0, false},
		{"more than a Duration", []string{"wait=10000000000"}, forever, true},
		{"more than an int64", []string{"wait=99999999999999999999"}, forever, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, ok := wire.ParsePreferWait(tt.values)
			if got != tt.want || ok != tt.ok {
				t.Errorf("ParsePreferWait(%q) = %v, %v, want %v, %v", tt.values, got, ok, tt.want, tt.ok)
			}
		})
	}
}

// only returns the lines of a request that has one header.
func only(name string, values []string) func(string) []string {
	return http.Header{name: values}.Values
}

func TestParseInbound_counts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		values        []string
		attempt       int
		callerRetries bool
	}{
		{"absent", nil, 0, false},
		{"zero", []string{"0"}, 0, true},
		{"zero in white space", []string{" 0\t"}, 0, true},
		{"one", []string{"1"}, 1, false},
		{"white space", []string{" 3 "}, 3, false},
		{"largest", []string{"16"}, 16, false},
		{"too large", []string{"17"}, 0, false},
		{"overflow", []string{"18446744073709551617"}, 0, false},
		{"negative", []string{"-1"}, 0, false},
		{"negative zero", []string{"-0"}, 0, false},
		{"two zeros", []string{"00"}, 0, false},
		{"sign", []string{"+3"}, 0, false},
		{"fraction", []string{"3.0"}, 0, false},
		{"hexadecimal", []string{"0x3"}, 0, false},
		{"digits of another script", []string{"٣"}, 0, false},
		{"word", []string{"many"}, 0, false},
		{"false", []string{"false"}, 0, false},
		{"empty", []string{""}, 0, false},
		{"two lines", []string{"3", "3"}, 0, false},
		{"two lines of zero", []string{"0", "0"}, 0, false},
		{"list", []string{"3, 3"}, 0, false},
		{"list of zeros", []string{"0, 0"}, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := wire.ParseInbound(only(wire.HeaderRetryAttempt, tt.values)).Attempt; got != tt.attempt {
				t.Errorf("Attempt of %q = %d, want %d", tt.values, got, tt.attempt)
			}
			if got := wire.ParseInbound(only(wire.HeaderRetryAllowance, tt.values)).CallerRetries; got != tt.callerRetries {
				t.Errorf("CallerRetries of %q = %v, want %v", tt.values, got, tt.callerRetries)
			}
		})
	}
}

func TestParseInbound_deadline(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		values []string
		want   time.Duration
		ok     bool
	}{
		{"absent", nil, 0, false},
		{"milliseconds", []string{"1500"}, 1500 * time.Millisecond, true},
		{"one", []string{"1"}, time.Millisecond, true},
		{"largest", []string{"9223372036854"}, 9223372036854 * time.Millisecond, true},
		{"zero", []string{"0"}, 0, false},
		{"negative", []string{"-5"}, 0, false},
		{"more than a Duration", []string{"9223372036855"}, 0, false},
		{"more than an int64", []string{"18446744073709551617"}, 0, false},
		{"NaN", []string{"NaN"}, 0, false},
		{"Inf", []string{"Inf"}, 0, false},
		{"fraction", []string{"1.5"}, 0, false},
		{"exponent", []string{"1e3"}, 0, false},
		{"empty", []string{""}, 0, false},
		{"two lines", []string{"5", "5"}, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // time stands still
				in := wire.ParseInbound(only(wire.HeaderRequestTimeout, tt.values))
				var want time.Time
				if tt.ok {
					want = time.Now().Add(tt.want)
				}
				if !in.Deadline.Equal(want) {
					t.Errorf("Deadline of %q = %v, want %v", tt.values, in.Deadline, want)
				}
			})
		})
	}
}

func TestParseInbound_parent(t *testing.T) {
	t.Parallel()
	const text = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
	id := [16]byte{0xf8, 0x1d, 0x4f, 0xae, 0x7d, 0xec, 0x11, 0xd0, 0xa7, 0x65, 0x00, 0xa0, 0xc9, 0x1e, 0x6b, 0xf6}
	tests := []struct {
		name   string
		values []string
		want   [16]byte
	}{
		{"absent", nil, [16]byte{}},
		{"a UUID", []string{text}, id},
		{"upper case", []string{strings.ToUpper(text)}, id},
		{"white space", []string{" " + text + "\t"}, id},
		{"zero", []string{"00000000-0000-0000-0000-000000000000"}, [16]byte{}},
		{"a URN", []string{"urn:uuid:" + text}, [16]byte{}},
		{"in braces", []string{"{" + text + "}"}, [16]byte{}},
		{"without hyphens", []string{strings.ReplaceAll(text, "-", "")}, [16]byte{}},
		{"hyphens elsewhere", []string{"f81d-4fae7dec-11d0-a765-00a0c91e6bf6"}, [16]byte{}},
		{"no digit", []string{"g" + text[1:]}, [16]byte{}},
		{"quoted", []string{`"` + text + `"`}, [16]byte{}},
		{"empty", []string{""}, [16]byte{}},
		{"two lines", []string{text, text}, [16]byte{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := wire.ParseInbound(only(wire.HeaderParent, tt.values)).Parent; got != tt.want {
				t.Errorf("Parent of %q = %x, want %x", tt.values, got, tt.want)
			}
		})
	}
}

// The next hop reads the headers that one hop sets.
func TestInbound_Set(t *testing.T) {
	t.Parallel()
	now := time.Now()
	in := func(attempt int, timeout time.Duration) wire.Inbound {
		return wire.Inbound{Attempt: attempt, CallerRetries: true, Deadline: now.Add(timeout)}
	}
	tests := []struct {
		name                        string
		in                          wire.Inbound
		attempt, allowance, timeout string
	}{
		{"nothing", wire.Inbound{}, "", "", ""},
		{"attempt", wire.Inbound{Attempt: 3}, "3", "", ""},
		{"the caller retries", wire.Inbound{CallerRetries: true}, "", "0", ""},
		{"all", in(1, 1500*time.Millisecond), "1", "0", "1500"},
		{"too large", in(100, forever), "16", "0", "9223372036854"},
		{"timeout rounds down", in(2, 1999*time.Microsecond), "2", "0", "1"},
		{"timeout is at least 1", in(2, 0), "2", "0", "1"},
		{"timeout is over", in(2, -time.Second), "2", "0", "1"},
		{"parent", wire.Inbound{Parent: [16]byte{1, 2}}, "", "", ""},
		{"first sent and rerun have no header here", wire.Inbound{FirstSent: now, Rerun: true}, "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			tt.in.Set(now, h.Set)
			want := http.Header{}
			for name, value := range map[string]string{
				wire.HeaderRetryAttempt: tt.attempt, wire.HeaderRetryAllowance: tt.allowance, wire.HeaderRequestTimeout: tt.timeout,
			} {
				if value != "" {
					want.Set(name, value)
				}
			}
			if tt.in.Parent != [16]byte{} {
				want.Set(wire.HeaderParent, "01020000-0000-0000-0000-000000000000")
			}
			require.Equal(t, want, h)
			read := wire.ParseInbound(h.Values)
			require.Equal(t, tt.in.Parent, read.Parent)
			require.Equal(t, min(tt.in.Attempt, 16), read.Attempt)
			require.Equal(t, tt.in.CallerRetries, read.CallerRetries)
			require.Equal(t, tt.in.Deadline.IsZero(), read.Deadline.IsZero())
		})
	}
}

func TestParseFlag(t *testing.T) {
	t.Parallel()
	tests := []struct {
		values   []string
		flag, ok bool
	}{
		{nil, false, false},
		{[]string{"true"}, true, true},
		{[]string{" false "}, false, true},
		{[]string{"TRUE"}, true, true},
		{[]string{"False"}, false, true},
		{[]string{"?1"}, true, true},
		{[]string{"?0"}, false, true},
		{[]string{"1"}, false, false},
		{[]string{""}, false, false},
		{[]string{"true", "true"}, false, false},
	}
	for _, tt := range tests {
		if flag, ok := wire.ParseFlag(tt.values); flag != tt.flag || ok != tt.ok {
			t.Errorf("ParseFlag(%q) = %v, %v, want %v, %v", tt.values, flag, ok, tt.flag, tt.ok)
		}
	}
}

// Whatever the other side sends, nothing panics, no number is out of its range,
// and no wait is negative.
func FuzzParseHeaders(f *testing.F) {
	for _, seed := range []string{
		"", "0", "-1", "16", "17", "1.5", "NaN", "wait=5", `a="b\", wait=9", wait="3"`, "18446744074", "9223372036854775807",
		"2026-03-01T12:30:15Z", "Sun, 01 Mar 2026 12:00:05 GMT", "Sunday, 01-Mar-26 12:00:05 GMT", "true", `"`, `\`, ",;=",
	} {
		f.Add(seed, seed)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, values := range [][]string{{a}, {a, b}} {
			in := wire.ParseInbound(func(string) []string { return values })
			if in.Attempt < 0 || in.Attempt > 16 {
				t.Errorf("ParseInbound(%q) = %+v", values, in)
			}
			if !in.Deadline.IsZero() && time.Until(in.Deadline) < -time.Minute {
				t.Errorf("ParseInbound(%q): Deadline = %v", values, in.Deadline)
			}
			if d, ok := wire.ParsePreferWait(values); d < 0 || d > 0 && !ok {
				t.Errorf("ParsePreferWait(%q) = %v, %v", values, d, ok)
			}
			if at, present, err := wire.ParseFirstSent(values); !present || err != nil && !at.IsZero() {
				t.Errorf("ParseFirstSent(%q) = %v, %v, %v", values, at, present, err)
			}
			wire.ParseFlag(values)
		}
		if d, ok := wire.RetryAfter(retryAfter(a, b), now); d < 0 || d > 0 && !ok {
			t.Errorf("RetryAfter(%q, %q) = %v, %v", a, b, d, ok)
		}
	})
}
