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
	goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")
	fence   = regexp.MustCompile("(?s)```.*?```")
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

// Every Go block of the README is a whole file, which the other tests compile and run.
// Every file is a block, but for the payment service: the README only starts it.
func TestREADME_showsTheseFiles(t *testing.T) {
	t.Parallel()
	text := readREADME(t)
	names, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	var files []string
	for _, name := range names {
		if name == filepath.Join("payment", "main.go") {
			continue
		}
		file, err := os.ReadFile(name)
		require.NoError(t, err)
		files = append(files, string(file))
		require.Contains(t, text, "(examples/readme/"+filepath.ToSlash(name)+")", "the README links the file")
	}
	var shown []string
	for _, b := range goBlock.FindAllStringSubmatch(text, -1) {
		shown = append(shown, b[1])
		require.LessOrEqual(t, strings.Count(b[1], "\n"), 60, b[1])
	}
	require.ElementsMatch(t, files, shown, "each file is a block, and each block a file")
}

// A new user sees code soon, and little to read beside it.
func TestREADME_isShort(t *testing.T) {
	t.Parallel()
	text := readREADME(t)
	first := goBlock.FindStringIndex(text)
	require.LessOrEqual(t, len(strings.Fields(text[:first[0]])), 120, "words before the first code")
	require.LessOrEqual(t, strings.Count(goBlock.FindStringSubmatch(text)[1], "\n"), 30, "lines of the first code")
	beside := integration.ReplaceAllString(fence.ReplaceAllString(text, ""), "| $1 |")
	require.LessOrEqual(t, len(strings.Fields(beside)), 1200, "words beside the code")
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 120, line)
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
