package childkey_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Both sides import these packages: whatever they imported would be in every
// caller and every callee.
func TestImports(t *testing.T) {
	t.Parallel()
	const module = "github.com/fanonce/fanonce"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+"/childkey/...").Output()
	require.NoError(t, err)
	packages := strings.Fields(string(out))
	require.Contains(t, packages, module+"/childkey/contract")
	packages = slices.DeleteFunc(packages, func(path string) bool {
		return path == "github.com/google/uuid" || path == module+"/childkey" || strings.HasPrefix(path, module+"/childkey/")
	})
	require.Empty(t, packages, "childkey/... imports more than the standard library, google/uuid and itself")
}
