package readme_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var (
	source = regexp.MustCompile("<!-- from: .* -->")
	fence  = regexp.MustCompile("(?s)```.*?```")
	// integration is a row of the table that begins with "| for | line |": folders, and a line of code.
	integration = regexp.MustCompile("(?m)^\\| (\\[.*\\)) \\| `([^`]*)` \\|$")
	link        = regexp.MustCompile(`\]\(([^)]*)\)`)
)

func readREADME(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	return string(text)
}

// A new user sees a command soon, and little to read beside code. Each piece of code is short, and part of a file that
// the other tests compile and run.
func TestREADME_isShort(t *testing.T) {
	t.Parallel()
	text := readREADME(t)
	before, _, found := strings.Cut(text, "go run ./examples/checkout")
	require.True(t, found)
	require.LessOrEqual(t, len(strings.Fields(before)), 150, "words before the first command")
	beside := integration.ReplaceAllString(source.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), "| $1 |")
	require.LessOrEqual(t, len(strings.Fields(beside)), 1500, "words beside the code")
	for _, block := range sourcedBlock.FindAllStringSubmatch(text, -1) {
		require.NotEmpty(t, block[1], "a block without its source:\n%s", block[2])
		require.LessOrEqual(t, strings.Count(block[2], "\n"), 12, block[2])
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 120, line)
		}
	}
}

// A link of the README leads to a file or folder of this repository.
func TestREADME_linksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, found := range link.FindAllStringSubmatch(fence.ReplaceAllString(readREADME(t), ""), -1) {
		if strings.HasPrefix(found[1], "https://") {
			continue
		}
		_, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(found[1])))
		require.NoError(t, err)
	}
}
