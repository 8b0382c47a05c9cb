package examples_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// faults is how many rows the fault matrix has.
const faults = 56

var (
	faultRow  = regexp.MustCompile(`^\| (\d+) \|`)
	namedTest = regexp.MustCompile("`([a-z/]+)`|(Test[A-Za-z0-9]+(?:_[A-Za-z0-9]+)?)")
)

// Each row of the fault matrix in server/DESIGN.md names tests, and each test is there.
func TestFaultMatrix_namesTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "server", "DESIGN.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## The fault matrix\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	tests := make(map[string]map[string]bool) // by folder
	rows := 0
	for line := range strings.Lines(section) {
		number := faultRow.FindStringSubmatch(line)
		if number == nil {
			continue
		}
		rows++
		require.Equal(t, strconv.Itoa(rows), number[1], "rows are in order")
		cells := strings.Split(strings.TrimSpace(line), " | ")
		require.Len(t, cells, 5, line)
		requireTests(t, rows, cells[4], tests)
	}
	require.Equal(t, faults, rows)
}

// requireTests looks for every test that a cell names behind its folder.
func requireTests(t *testing.T, row int, cell string, known map[string]map[string]bool) {
	t.Helper()
	folder, found := "", 0
	for _, m := range namedTest.FindAllStringSubmatch(cell, -1) {
		if m[1] != "" {
			folder = m[1]
			continue
		}
		require.NotEmpty(t, folder, "row %d: %s has no folder", row, m[2])
		if known[folder] == nil {
			known[folder] = testsIn(t, folder)
		}
		require.True(t, known[folder][m[2]], "row %d: there is no %s in %s", row, m[2], folder)
		found++
	}
	require.Positive(t, found, "row %d names no test", row)
}

// testsIn returns the names of the test functions in a folder of the repository.
func testsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	require.NoError(t, err)
	names := make(map[string]bool)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}
