package childkey_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

func TestParse(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", childkey.MaxKeyBytes)
	tests := []struct {
		name, text, want string
		err              error
	}{
		{"bare", "order-42", "order-42", nil},
		{"quoted", `"order-42"`, "order-42", nil},
		{"one byte", "k", "k", nil},
		{"first and last byte allowed", "!~", "!~", nil},
		{"percent sign is three characters", "%00", "%00", nil},
		{"single quotes are characters", "'k'", "'k'", nil},
		{"longest", long, long, nil},
		{"longest, quoted", `"` + long + `"`, long, nil},

		{"empty", "", "", childkey.ErrEmpty},
		{"empty quotes", `""`, "", childkey.ErrEmpty},
		{"too long", long + "k", "", childkey.ErrTooLong},
		{"too long, quoted", `"` + long + `k"`, "", childkey.ErrTooLong},
		{"lone quote", `"`, "", childkey.ErrBadKey},
		{"open quote", `"k`, "", childkey.ErrBadKey},
		{"closing quote", `k"`, "", childkey.ErrBadKey},
		{"quote inside", `k"k`, "", childkey.ErrBadKey},
		{"escaped quote", `"k\"k"`, "", childkey.ErrBadKey},
		{"quoted twice", `""k""`, "", childkey.ErrBadKey},
		{"parameter", `"k";a=1`, "", childkey.ErrBadKey},
		{"parameter with a string", `"k";a="1"`, "", childkey.ErrBadKey},
		{"backslash", `k\k`, "", childkey.ErrBadKey},
		{"list", "a,b", "", childkey.ErrBadKey},
		{"space inside", "a b", "", childkey.ErrBadKey},
		{"space before", " a", "", childkey.ErrBadKey},
		{"space after", "a ", "", childkey.ErrBadKey},
		{"space in quotes", `" a"`, "", childkey.ErrBadKey},
		{"tab", "a\tb", "", childkey.ErrBadKey},
		{"CR LF", "a\r\nb", "", childkey.ErrBadKey},
		{"NUL", "a\x00", "", childkey.ErrBadKey},
		{"DEL", "a\x7f", "", childkey.ErrBadKey},
		{"not ASCII", "clé", "", childkey.ErrBadKey},
		{"not UTF-8", "\xff", "", childkey.ErrBadKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := childkey.Parse(tt.text)
			if !errors.Is(err, tt.err) || got.String() != tt.want {
				t.Errorf("Parse(%q) = %q, %v, want %q, %v", tt.text, got.String(), err, tt.want, tt.err)
			}
		})
	}
}

func TestKey_forms(t *testing.T) {
	t.Parallel()
	for _, key := range []childkey.Key{
		childkey.MustParse("k-1"), childkey.MustParse(`"k-1"`), childkey.MustNew(),
	} {
		require.Equal(t, `"`+key.String()+`"`, key.Quoted())
		require.Equal(t, key, childkey.MustParse(key.Quoted()))
		require.Equal(t, key, childkey.MustParse(key.String()))
	}
	require.Equal(t, `""`, childkey.Key{}.Quoted())
	require.Empty(t, childkey.Key{}.String())
}

// A callee parses a quoted key for every request, and a caller quotes one.
func TestKey_quotedCostsNothing(t *testing.T) {
	text := childkey.MustNew().Quoted()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		key, err := childkey.Parse(text)
		if err != nil || key.Quoted() != text || len(key.String()) != 36 {
			t.Error("not the key")
		}
	}))
}

func TestParse_caseCounts(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, childkey.MustParse("Order"), childkey.MustParse("order"))
}

func TestParse_errorHoldsNoKey(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"secret-order\x00", strings.Repeat("secret-order", 30)} {
		_, err := childkey.Parse(text)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret-order")
	}
}

func TestKey_loggedAsDigest(t *testing.T) {
	t.Parallel()
	key := childkey.MustParse("order-42")
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("call", "key", key)
	fmt.Fprintf(&out, "%#v", key)
	require.NotContains(t, out.String(), "order-42")
	require.Equal(t, 2, strings.Count(out.String(), key.Digest()))
	require.Len(t, key.Digest(), 16)
}

func TestKey_zero(t *testing.T) {
	t.Parallel()
	var key childkey.Key
	require.True(t, key.IsZero())
	require.Empty(t, key.Digest())
	require.Empty(t, key.String())
	require.False(t, childkey.MustParse("k").IsZero())
}

func TestKey_text(t *testing.T) {
	t.Parallel()
	type intent struct {
		Parent childkey.Key `json:"parent"`
		Undo   childkey.Key `json:"undo"`
	}
	in := intent{Parent: childkey.MustParse("order-42")}
	data, err := json.Marshal(in)
	require.NoError(t, err)
	require.JSONEq(t, `{"parent":"order-42","undo":""}`, string(data))

	out := intent{Undo: childkey.MustParse("left-over")}
	require.NoError(t, json.Unmarshal(data, &out))
	require.True(t, in == out)

	require.ErrorIs(t, json.Unmarshal([]byte(`{"parent":"a b"}`), &out), childkey.ErrBadKey)
	require.True(t, in == out, "an error must leave the key")
}

func TestKey_V7Time(t *testing.T) {
	t.Parallel()
	v7 := "0190163d-8694-739b-aea5-966c26f8ad91" // 1718306293396 ms
	tests := []struct {
		name, text string
		want       bool
	}{
		{"v7", v7, true},
		{"upper case", strings.ToUpper(v7), true},
		{"32 digits", strings.ReplaceAll(v7, "-", ""), false},
		{"v4", "018f3c1e-7b7a-4d2c-9a51-0c6d5e4f3a2b", false},
		{"other variant", "0190163d-8694-739b-cea5-966c26f8ad91", false},
		{"hyphens elsewhere", "0190163d8-694-739b-aea5-966c26f8ad91", false},
		{"braces", "{" + v7 + "}", false},
		{"URN", "urn:uuid:" + v7, false},
		{"36 bytes of something", strings.Repeat("7", 36), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			at, ok := childkey.MustParse(tt.text).V7Time()
			require.Equal(t, tt.want, ok)
			if ok {
				require.Equal(t, time.UnixMilli(0x0190163d8694).UTC(), at)
			} else {
				require.Zero(t, at)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"k", `"k"`, `"`, `""`, `"k\"k"`, `"k";a=1`, "a, b", "a\x00", "\x7f", "é", strings.Repeat("k", 256)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := childkey.Parse(text)
		if err != nil {
			if !key.IsZero() {
				t.Fatalf("Parse(%q) = %q with %v, want the zero Key", text, key.String(), err)
			}
			return
		}
		bare := key.String()
		if bare == "" || len(bare) > childkey.MaxKeyBytes || text != bare && text != key.Quoted() {
			t.Fatalf("Parse(%q) = %q", text, bare)
		}
		for _, c := range []byte(bare) {
			if c <= ' ' || c >= 0x7f || c == '"' || c == ',' || c == '\\' {
				t.Fatalf("Parse(%q) = %q, which has %q", text, bare, c)
			}
		}
		for _, form := range []string{bare, key.Quoted()} {
			if again, err := childkey.Parse(form); err != nil || again != key {
				t.Fatalf("Parse(%q) = %q, %v, want %q", form, again.String(), err, bare)
			}
		}
	})
}
