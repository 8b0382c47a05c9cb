package readme_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// A sourced block is Go code of a document, behind a comment that names the file which it is a part of.
var sourcedBlock = regexp.MustCompile("(?s)(?:<!-- from: (\\S+) -->\n)?```go\n(.*?)```")

// guides are the documents whose Go code is all sourced.
var guides = []string{"GUIDE.md", "PRODUCTION.md", "ONCALL.md", "ADOPT.md", "RECIPES.md"}

// A guide is for a person with a task, who has ten minutes.
func TestGuides_areShort(t *testing.T) {
	t.Parallel()
	for _, guide := range []string{
		"server/GUIDE.md", "server/PRODUCTION.md", "server/ONCALL.md", "server/ADOPT.md", "saga/RECIPES.md", "sdk/RECIPES.md",
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(guide)))
		require.NoError(t, err)
		words := 0
		for _, field := range strings.Fields(source.ReplaceAllString(fence.ReplaceAllString(string(text), ""), "")) {
			if strings.ContainsFunc(field, unicode.IsLetter) || strings.ContainsFunc(field, unicode.IsDigit) {
				words++
			}
		}
		require.LessOrEqual(t, words, 1200, guide)
	}
}

// The code of the documents is code of files that compile, line by line.
func TestDocuments_showCompiledCode(t *testing.T) {
	t.Parallel()
	const root = "../.."
	blocks := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, block := range sourcedBlock.FindAllStringSubmatch(string(text), -1) {
			if block[1] == "" {
				require.NotContains(t, guides, entry.Name(), "%s: a block without its source:\n%s", path, block[2])
				continue
			}
			blocks++
			source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(block[1])))
			require.NoError(t, err, path)
			require.True(t, isPart(block[2], string(source)), "%s: %s has no such lines:\n%s", path, block[1], block[2])
		}
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, blocks)
}

func TestIsPart(t *testing.T) {
	t.Parallel()
	const source = "func f() {\n\tif a {\n\t\tb()\n\n\t\tc()\n\t}\n}\n"
	for block, want := range map[string]bool{
		"b()\n\nc()\n":                true,
		"if a {\n\tb()\n\n\tc()\n}\n": true,
		"b()\nc()\n":                  false,
		"if a {\nb()\n":               false,
		"b()\n\nc() // more\n":        false,
		source:                        true,
		"":                            false,
	} {
		require.Equal(t, want, isPart(block, source), "%q", block)
	}
}

// isPart reports whether the lines of block are lines of source, one behind the other, but for one indentation.
func isPart(block, source string) bool {
	want := strings.Split(strings.TrimSuffix(block, "\n"), "\n")
	lines := strings.Split(source, "\n")
	for i := 0; block != "" && i+len(want) <= len(lines); i++ {
		indent, ok := strings.CutSuffix(lines[i], want[0])
		if ok && strings.Trim(indent, "\t") == "" && slices.EqualFunc(want, lines[i:i+len(want)], func(w, l string) bool {
			return l == indent+w || w == "" && l == ""
		}) {
			return true
		}
	}
	return false
}
