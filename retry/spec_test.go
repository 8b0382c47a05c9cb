package retry_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// The page for other languages says of each code what this client makes of it.
func TestSpec_outcomes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../childkey/wire/SPEC.md")
	require.NoError(t, err)
	for _, s := range wire.Situations() {
		_, row, ok := strings.Cut(string(text), "\n| `"+string(s.Code)+"` |")
		require.True(t, ok, s.Code)
		row, _, _ = strings.Cut(row, "\n")
		cells := strings.Split(strings.Trim(row, "| "), "|")
		verdict, ok := retry.CodeVerdict(s.Code)
		require.True(t, ok)
		require.Equal(t, verdict.Outcome.String(), strings.TrimSpace(cells[len(cells)-1]), s.Code)
	}
}
