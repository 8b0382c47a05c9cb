package wire_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
)

// SPEC.md has the table that the package has, row by row.
func TestSpec_codes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("SPEC.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "| code | HTTP | gRPC | retry | the caller's outcome |\n")
	require.True(t, ok)
	var rows [][]string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 {
			break
		}
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		rows = append(rows, cells)
	}
	situations := wire.Situations()
	require.Len(t, rows[1:], len(situations)) // without the line of dashes
	for i, s := range situations {
		retry := map[bool]string{true: "yes", false: "no"}[s.Retryable]
		require.Equal(t, []string{string(s.Code), strconv.Itoa(s.Status), s.GRPC, retry}, rows[i+1][:4])
		require.Equal(t, s.Retryable, s.RetryAfter, "%s: Retry-After where a retry can help", s.Code)
	}
}
