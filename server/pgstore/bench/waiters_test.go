package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInTurns(t *testing.T) {
	t.Parallel()
	var turns []string
	note := func(name string) func(bool) error {
		return func(warm bool) error {
			turns = append(turns, name+strconv.FormatBool(warm)[:1])
			return nil
		}
	}
	require.NoError(t, inTurns(3, note("a"), note("b")))
	require.Equal(t, "at bt bf af af bf bf af", strings.Join(turns, " "))
	require.ErrorIs(t, inTurns(1, func(bool) error { return errBroken }), errBroken)
}
