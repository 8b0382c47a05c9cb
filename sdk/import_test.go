package sdk_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A caller must not link a server, a store or a database driver.
func TestImports(t *testing.T) {
	t.Parallel()
	const module = "github.com/fanonce/fanonce/"
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{.ImportPath}}:{{range .Imports}} {{.}}{{end}}`, module+"sdk/...")
	out, err := cmd.Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		from, imports, _ := strings.Cut(line, ":")
		for path := range strings.FieldsSeq(imports) {
			first, _, _ := strings.Cut(path, "/")
			ours := path == module+"retry" || path == module+"sdk" || path == module+"childkey" ||
				strings.HasPrefix(path, module+"childkey/") || path == module+"internal/errtext"
			if strings.Contains(first, ".") && !ours {
				t.Errorf("%s imports %s", from, path)
			}
			if strings.HasSuffix(from, "/sdk") && path == "testing" {
				t.Errorf("%s imports %s", from, path)
			}
		}
	}
}
