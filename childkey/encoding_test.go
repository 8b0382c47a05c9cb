package childkey_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

func TestEncoding(t *testing.T) {
	t.Parallel()
	tests := []struct {
		encoding childkey.Encoding
		name     string
		want     string
	}{
		{childkey.Hex32, "hex32", `^[0-9a-f]{32}$`},
		{childkey.Hex64, "hex64", `^[0-9a-f]{64}$`},
		{childkey.Base64URL22, "base64url22", `^[A-Za-z0-9_-]{22}$`},
		{childkey.Base64URL43, "base64url43", `^[A-Za-z0-9_-]{43}$`},
		{childkey.UUIDv8, "uuid8", `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`},
		{childkey.UUIDv4, "uuid4", `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`},
	}
	require.Len(t, childkey.Encodings(), len(tests))
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.encoding, childkey.Encodings()[i])
			require.Equal(t, tt.name, tt.encoding.String())
			require.True(t, tt.encoding.Valid())
			// Every byte of the hash matters to the form, or none beyond the 16th.
			for b := range 256 {
				var sum childkey.Hash
				for j := range sum {
					sum[j] = byte(b)
				}
				key, err := tt.encoding.Key(sum)
				require.NoError(t, err)
				require.Regexp(t, regexp.MustCompile(tt.want), key.String())
				require.Len(t, key.String(), tt.encoding.Len())
				parsed, err := childkey.Parse(key.String())
				require.NoError(t, err)
				require.True(t, parsed == key)
				text, err := tt.encoding.AppendTo([]byte("k="), sum)
				require.NoError(t, err)
				require.Equal(t, "k="+key.String(), string(text))
			}
		})
	}
}

func TestEncoding_zeroIsHex32(t *testing.T) {
	t.Parallel()
	var e childkey.Encoding
	require.Equal(t, childkey.Hex32, e)
}

func TestEncoding_invalid(t *testing.T) {
	t.Parallel()
	e := childkey.Encoding(200)
	require.False(t, e.Valid())
	require.Zero(t, e.Len())
	require.Equal(t, "Encoding(200)", e.String())
	key, err := e.Key(childkey.Hash{})
	require.ErrorIs(t, err, childkey.ErrBadEncoding)
	require.True(t, key.IsZero())
	dst, err := e.AppendTo([]byte("x"), childkey.Hash{})
	require.ErrorIs(t, err, childkey.ErrBadEncoding)
	require.Equal(t, "x", string(dst))
}

// The forms of 16 bytes leave the hash that is passed in alone.
func TestEncoding_doesNotChangeTheHash(t *testing.T) {
	t.Parallel()
	sum, err := childkey.Sum(parent, "payment", "charge")
	require.NoError(t, err)
	before := sum
	for _, e := range childkey.Encodings() {
		_, err := e.Key(sum)
		require.NoError(t, err)
	}
	require.True(t, before == sum)
	key, err := childkey.UUIDv8.Key(sum)
	require.NoError(t, err)
	hex32, err := childkey.Hex32.Key(sum)
	require.NoError(t, err)
	require.Equal(t, hex32.String()[:12], strings.ReplaceAll(key.String(), "-", "")[:12])
}
