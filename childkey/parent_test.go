package childkey_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

func TestFromParts_badInput(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, namespace string
		parts           []string
		want            error
	}{
		{"no namespace", "", []string{"p"}, childkey.ErrEmpty},
		{"bad namespace", "a:b", []string{"p"}, childkey.ErrBadName},
		{"long namespace", longest + "n", []string{"p"}, childkey.ErrTooLong},
		{"no parts", "n", nil, childkey.ErrEmpty},
		{"empty part", "n", []string{"order", ""}, childkey.ErrEmpty},
		{"long part", "n", []string{strings.Repeat("p", 257)}, childkey.ErrTooLong},
		{"nine parts", "n", slices.Repeat([]string{"p"}, 9), childkey.ErrTooMany},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := childkey.FromParts(tt.namespace, tt.parts...)
			if !errors.Is(err, tt.want) || !got.IsZero() {
				t.Errorf("FromParts(%q, %q) = %q, %v, want %v", tt.namespace, tt.parts, got.String(), err, tt.want)
			}
		})
	}
}

func TestFromParts_distinct(t *testing.T) {
	t.Parallel()
	seen := map[childkey.Key]bool{}
	for _, parts := range [][]string{{"a", "b", "c"}, {"a", "bc"}, {"a", "b", "d"}, {"ab", "c"}, {"b", "a", "c"}} {
		key, err := childkey.FromParts(parts[0], parts[1:]...)
		require.NoError(t, err)
		require.False(t, seen[key], "%q", parts)
		seen[key] = true
	}
}

func TestLegacy_refusesColons(t *testing.T) {
	t.Parallel()
	_, err := childkey.Legacy(childkey.MustParse("a:b"), "c", "d")
	require.ErrorIs(t, err, childkey.ErrBadKey)
	require.NotContains(t, err.Error(), "a:b")
	_, err = childkey.Legacy(childkey.MustParse("a"), "b:c", "d")
	require.ErrorIs(t, err, childkey.ErrBadName)
	_, err = childkey.Legacy(childkey.MustParse("a"), "b", "c:d")
	require.ErrorIs(t, err, childkey.ErrBadName)
}
