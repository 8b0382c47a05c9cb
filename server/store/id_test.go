package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server/store"
)

func TestParseID(t *testing.T) {
	t.Parallel()
	want := store.ID{0x08, 0x03, 0x96, 0x2c, 0xa4, 0x76, 0x3a, 0xed, 0x71, 0x58, 0x75, 0x4a, 0x6e, 0xa2, 0x0d, 0x9f}
	const text = "0803962c-a476-3aed-7158-754a6ea20d9f"
	require.Equal(t, text, want.String())
	line, err := json.Marshal(map[string]any{"id": want})
	require.NoError(t, err)
	require.Equal(t, `{"id":"`+text+`"}`, string(line))
	for _, ok := range []string{
		text, "urn:uuid:" + text, "URN:UUID:" + strings.ToUpper(text), strings.ReplaceAll(text, "-", ""), strings.ToUpper(text),
	} {
		got, err := store.ParseID(ok)
		require.NoError(t, err, ok)
		require.Equal(t, want, got, ok)
	}
	for _, bad := range []string{
		"", "urn:uuid:", text[1:], text + "0", "g" + text[1:], "{" + text + "}", "uuid:" + text, " " + text,
		"0803962ca-476-3aed-7158-754a6ea20d9f", strings.ReplaceAll(text, "-", "_"), strings.Repeat("-", 36), strings.Repeat("0", 31) + "-",
		strings.Repeat("0", 1<<20),
	} {
		_, err := store.ParseID(bad)
		require.ErrorIs(t, err, store.ErrArgument, "%.40q", bad)
		require.Less(t, len(err.Error()), 400, "the text may be anything")
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("0803962c-a476-3aed-7158-754a6ea20d9f")
	f.Add("urn:uuid:0803962ca4763aed7158754a6ea20d9f")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := store.ParseID(text)
		if err != nil {
			return
		}
		if again, err := store.ParseID(id.String()); err != nil || again != id {
			t.Fatalf("%q: parsed again: %v, %v, want %v", text, again, err, id)
		}
	})
}

// This is a golden value. If it changed, the keys stored before would be lost,
// and run again.
func TestNewID_golden(t *testing.T) {
	t.Parallel()
	key, err := childkey.Parse("order-1042")
	require.NoError(t, err)
	require.Equal(t, "d306b96e-800b-55be-494d-90fb0e69f60c", store.NewID("tenant/ann", "orders", key).String())
}

// Without their lengths these fields would be the same key.
func TestNewID_boundaries(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, store.NewID("x", "b", childkey.MustParse("a")), store.NewID("x", "", childkey.MustParse("ba")))
}
