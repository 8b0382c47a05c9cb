package npmtest_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/npmtest"
)

// A package of no other packages needs no registry.
const (
	manifest = `{"name": "none", "version": "1.0.0"}`
	lock     = `{"name": "none", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "none", "version": "1.0.0"}}}`
)

func TestModules(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip(err)
	}
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	folder := t.TempDir()
	write(t, folder, "package.json", manifest)
	write(t, folder, "package-lock.json", lock)
	modules, err := npmtest.Modules(folder)
	require.NoError(t, err)
	require.Equal(t, "node_modules", filepath.Base(modules))
	require.DirExists(t, filepath.Dir(modules))
	left, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(modules)), "new-*"))
	require.NoError(t, err)
	require.Empty(t, left)

	t.Setenv("PATH", "") // npm is asked once
	again, err := npmtest.Modules(folder)
	require.NoError(t, err)
	require.Equal(t, modules, again)
}

func TestModules_fails(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	_, err := npmtest.Modules(t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist)

	folder := t.TempDir()
	write(t, folder, "package.json", manifest)
	write(t, folder, "package-lock.json", lock)
	t.Setenv("PATH", "")
	_, err = npmtest.Modules(folder)
	require.ErrorIs(t, err, exec.ErrNotFound)
}

func TestCheckLock(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"integrity": "sha512-x"}`:                                        "",
		`{"integrity": "sha512-x", "resolved": "https://registry.test/x"}`: "names the host",
		`{}`: "lacks hash sums",
	} {
		folder := t.TempDir()
		write(t, folder, "package-lock.json", text)
		err := npmtest.CheckLock(folder)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	require.ErrorIs(t, npmtest.CheckLock(t.TempDir()), fs.ErrNotExist)
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
}
