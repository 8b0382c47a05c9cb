package wire_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

func TestParseKeyHeader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", childkey.MaxKeyBytes)
	tests := []struct {
		name    string
		values  []string
		want    string
		present bool
		err     error
	}{
		{"absent", nil, "", false, nil},
		{"absent, not nil", []string{}, "", false, nil},
		{"bare", []string{"abc"}, "abc", true, nil},
		{"quoted", []string{`"abc"`}, "abc", true, nil},
		{"outer white space", []string{"\t abc "}, "abc", true, nil},
		{"outer white space, quoted", []string{` "abc" `}, "abc", true, nil},
		{"longest", []string{long}, long, true, nil},
		{"longest, quoted, with a parameter", []string{`"` + long + `";a`}, long, true, nil},
		{"bare with what looks like a parameter", []string{"abc;a=1"}, "abc;a=1", true, nil},
		{"percent sign", []string{"%00"}, "%00", true, nil},

		{"integer parameter", []string{`"abc";a=1`}, "abc", true, nil},
		{"parameters of all kinds", []string{`"abc"; a;b=?0; *c-d_e.f=-1.5;g="x,\"\\;";h=*tok/en:1;i=:YWJj:;j=@1659578233`}, "abc", true, nil},

		{"empty", []string{""}, "", true, childkey.ErrEmpty},
		{"white space", []string{" \t"}, "", true, childkey.ErrEmpty},
		{"empty quotes", []string{`""`}, "", true, childkey.ErrEmpty},
		{"two lines", []string{"a", "b"}, "", true, wire.ErrBadHeader},
		{"two equal lines", []string{"a", "a"}, "", true, wire.ErrBadHeader},
		{"an empty line more", []string{"a", ""}, "", true, wire.ErrBadHeader},
		{"list", []string{"a, b"}, "", true, childkey.ErrBadKey},
		{"list without space", []string{"a,b"}, "", true, childkey.ErrBadKey},
		{"list of strings", []string{`"a", "b"`}, "", true, wire.ErrBadHeader},
		{"inner list", []string{`("a" "b")`}, "", true, wire.ErrBadHeader},
		{"inner list of a token", []string{"(a)"}, "", true, wire.ErrBadHeader},
		{"open quote", []string{`"abc`}, "", true, wire.ErrBadHeader},
		{"lone quote", []string{`"`}, "", true, wire.ErrBadHeader},
		{"closing quote", []string{`abc"`}, "", true, childkey.ErrBadKey},
		{"escaped quote", []string{`"a\"b"`}, "", true, childkey.ErrBadKey},
		{"escaped backslash", []string{`"a\\b"`}, "", true, childkey.ErrBadKey},
		{"bad escape", []string{`"a\b"`}, "", true, childkey.ErrBadKey},
		{"space inside", []string{"a b"}, "", true, childkey.ErrBadKey},
		{"space in quotes", []string{`" a"`}, "", true, childkey.ErrBadKey},
		{"too long", []string{long + "k"}, "", true, childkey.ErrTooLong},
		{"too long, quoted", []string{`"` + long + `k"`}, "", true, childkey.ErrTooLong},
		{"NUL", []string{"a\x00b"}, "", true, childkey.ErrBadKey},
		{"CR LF", []string{"a\r\nX: y"}, "", true, childkey.ErrBadKey},
		{"not ASCII", []string{"clé"}, "", true, childkey.ErrBadKey},

		{"bytes after the quote", []string{`"abc"d`}, "", true, wire.ErrBadHeader},
		{"space before the parameter", []string{`"abc" ;a`}, "", true, wire.ErrBadHeader},
		{"parameter without a name", []string{`"abc";=1`}, "", true, wire.ErrBadHeader},
		{"parameter in upper case", []string{`"abc";A=1`}, "", true, wire.ErrBadHeader},
		{"parameter without a value", []string{`"abc";a=`}, "", true, wire.ErrBadHeader},
		{"parameter with an open quote", []string{`"abc";a="x`}, "", true, wire.ErrBadHeader},
		{"parameter with a bad escape", []string{`"abc";a="\x"`}, "", true, wire.ErrBadHeader},
		{"parameter that ends in an escape", []string{`"abc";a="\`}, "", true, wire.ErrBadHeader},
		{"parameter with a control byte", []string{"\"abc\";a=\"\x01\""}, "", true, wire.ErrBadHeader},
		{"semicolon at the end", []string{`"abc";`}, "", true, wire.ErrBadHeader},
		{"parameter and list", []string{`"abc";a=1, "d"`}, "", true, wire.ErrBadHeader},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			key, present, err := wire.ParseKeyHeader(tt.values)
			if !errors.Is(err, tt.err) || key.String() != tt.want || present != tt.present {
				t.Errorf("ParseKeyHeader(%q) = %q, %v, %v, want %q, %v, %v", tt.values, key.String(), present, err, tt.want, tt.present, tt.err)
			}
			if tt.err != nil {
				require.ErrorIs(t, err, wire.ErrBadHeader)
				require.NotContains(t, err.Error(), "abc")
			}
		})
	}
}

// What a client sets is what the server parses.
func TestParseKeyHeader_fromRequest(t *testing.T) {
	t.Parallel()
	key := childkey.MustParse("order-42")
	h := http.Header{}
	h.Set("idempotency-key", key.Quoted())
	got, present, err := wire.ParseKeyHeader(h.Values(wire.HeaderKey))
	require.NoError(t, err)
	require.True(t, present)
	require.True(t, got == key)
}

func FuzzParseKeyHeader(f *testing.F) {
	for _, seed := range []string{"abc", `"abc"`, `"abc";a="x\"";b`, `("a")`, "(a)", `"a\"b"`, `"a`, "a, b", `"a" "b"`, "", `"";a`} {
		f.Add(seed, "")
	}
	f.Add("a", "a")
	f.Fuzz(func(t *testing.T, line, second string) {
		key, present, err := wire.ParseKeyHeader([]string{line})
		if !present || key.IsZero() != (err != nil) {
			t.Fatalf("ParseKeyHeader(%q) = %q, %v, %v", line, key.String(), present, err)
		}
		if err != nil && !errors.Is(err, wire.ErrBadHeader) {
			t.Fatalf("error = %v, want %v", err, wire.ErrBadHeader)
		}
		if err == nil && !strings.HasPrefix(key.String(), "(") {
			for _, form := range []string{key.String(), key.Quoted(), key.Quoted() + ";p=1"} {
				if again, _, err := wire.ParseKeyHeader([]string{form}); err != nil || again != key {
					t.Fatalf("ParseKeyHeader(%q) = %q, %v, want %q", form, again.String(), err, key.String())
				}
			}
			// Nothing but white space, quotes and parameters was dropped.
			if text := strings.Trim(line, " \t"); text != key.String() && !strings.HasPrefix(text, key.Quoted()) {
				t.Fatalf("ParseKeyHeader(%q) = %q", line, key.String())
			}
		}
		if _, _, err := wire.ParseKeyHeader([]string{line, second}); err == nil {
			t.Fatalf("two lines were accepted")
		}
	})
}
