package clients

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README shows the code that the tests run.
func TestReadme_showsTheCode(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var code strings.Builder
	for _, pattern := range []string{"*.go", "node/*.mjs"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			code.WriteString(unindented(string(text)))
		}
	}
	blocks := regexp.MustCompile("(?s)```(?:go|js)\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.GreaterOrEqual(t, len(blocks), 10)
	for _, block := range blocks {
		require.Contains(t, code.String(), unindented(block[1]))
	}
}

// unindented returns text without the white space in front of its lines.
func unindented(text string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "")
}
