package browsertest_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// axeCore returns the source of axe-core, or skips the test where npm is missing.
func axeCore(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("no npm on PATH: apt-get install npm")
	}
	text, err := installAxe()
	require.NoError(t, err)
	return text
}

// installAxe installs the packages of the lock file once into the user's cache.
var installAxe = sync.OnceValues(func() (string, error) {
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	parent := filepath.Join(cache, "fanonce-browsertest")
	installed := filepath.Join(parent, fmt.Sprintf("%x", sha256.Sum256(lock)))
	if _, err := os.Stat(installed); errors.Is(err, fs.ErrNotExist) {
		if err := npmInto(parent, installed); err != nil {
			return "", err
		}
	}
	text, err := os.ReadFile(filepath.Join(installed, "node_modules", "axe-core", "axe.min.js"))
	return string(text), err
})

func npmInto(parent, installed string) error {
	if err := os.MkdirAll(parent, 0o750); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	// Another test binary may have been faster. Its folder is as good.
	if err := os.Rename(dir, installed); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// A lock file that names a registry's host would bind its readers to that host.
func TestPackages_lockNamesNoRegistry(t *testing.T) {
	t.Parallel()
	lock, err := os.ReadFile("package-lock.json")
	require.NoError(t, err)
	require.NotContains(t, string(lock), `"resolved"`)
	require.Contains(t, string(lock), `"integrity"`)
}
