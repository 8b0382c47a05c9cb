package browsertest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/npmtest"
)

// axeCore returns the source of axe-core, or skips the test where npm is missing.
func axeCore(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("no npm on PATH: apt-get install npm")
	}
	modules, err := npmtest.Modules(".")
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(modules, "axe-core", "axe.min.js"))
	require.NoError(t, err)
	return string(text)
}

// A lock file that names a registry's host would bind its readers to that host.
func TestPackages_lockNamesNoRegistry(t *testing.T) {
	t.Parallel()
	require.NoError(t, npmtest.CheckLock("."))
}
