package pgstore_test

import (
	osexec "os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A callee that keeps its keys in Postgres links the driver, and no package of
// the caller's side.
func TestImports(t *testing.T) {
	t.Parallel()
	const module = "github.com/fanonce/fanonce/"
	allowed := map[string][]string{
		".":                    {module + "server", module + "childkey", module + "internal/pgkit", module + "internal/errtext", "github.com/jackc/", "golang.org/x/", "github.com/google/uuid"},
		"../../internal/pgkit": {module + "internal/pgkit", "github.com/jackc/", "golang.org/x/"},
	}
	for dir, prefixes := range allowed {
		cmd := osexec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", dir)
		out, err := cmd.Output()
		require.NoError(t, err)
		for dep := range strings.FieldsSeq(string(out)) {
			ok := false
			for _, p := range prefixes {
				ok = ok || strings.HasPrefix(dep, p)
			}
			if !ok {
				t.Errorf("%s links %s", dir, dep)
			}
		}
	}
}
