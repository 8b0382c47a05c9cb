package readme_test

import (
	"go/ast"
	gobuild "go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each line of code in the table of integrations is code of a folder that its row links: a whole statement or expression
// of a file that the tests there compile. Comments and strings do not count.
func TestREADME_integrationsCompile(t *testing.T) {
	t.Parallel()
	_, table, found := strings.Cut(readREADME(t), "\n| for | line |\n| --- | --- |\n")
	require.True(t, found, "the README has a table of integrations")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table + "\n") {
		parts := integration.FindStringSubmatch(strings.TrimSuffix(row, "\n"))
		require.NotNil(t, parts, "%q is no row of links and a line of code", row)
		var folders []string
		for _, l := range link.FindAllStringSubmatch(parts[1], -1) {
			folders = append(folders, l[1])
		}
		require.True(t, compiles(t, folders, parts[2]), "no code of %v is %s", folders, parts[2])
	}
}

func TestREADME_integrationsCompile_findsCodeAlone(t *testing.T) {
	t.Parallel()
	const folder = "examples/readme"
	require.True(t, compiles(t, []string{folder}, `strings.Cut(table, "\n\n")`))
	require.False(t, compiles(t, []string{folder}, "Each line of code"), "a comment")
	require.False(t, compiles(t, []string{folder}, `strings.Cut(table, "\n")`))
	require.False(t, compiles(t, []string{"examples/ledger"}, `strings.Cut(table, "\n\n")`), "another folder")
}

// compiles reports whether code is a statement or an expression in one of the folders or below.
func compiles(t *testing.T, folders []string, code string) bool {
	t.Helper()
	for _, folder := range folders {
		is := false
		err := filepath.WalkDir(filepath.Join("..", "..", filepath.FromSlash(folder)), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(file) != ".go" || is {
				return err
			}
			if built, err := gobuild.Default.MatchFile(filepath.Split(file)); err != nil || !built {
				return err
			}
			is = contains(t, file, code)
			return nil
		})
		require.NoError(t, err)
		if is {
			return true
		}
	}
	return false
}

func contains(t *testing.T, file, code string) (is bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n.(type) {
		case ast.Stmt, ast.Expr:
			is = is || string(text[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset]) == code
		}
		return !is
	})
	return is
}
