package pgtest

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Not parallel: it sets TMPDIR.
func TestFolderParent(t *testing.T) {
	t.Setenv("TMPDIR", "")
	for _, tt := range []struct {
		name    string
		durable bool
		want    string
	}{
		{"in memory, where there is room", false, cmp.Or(memoryFolder(), os.TempDir())},
		{"durable: on a disk", true, os.TempDir()},
	} {
		got, err := folderParent(nil, tt.durable)
		require.NoError(t, err, tt.name)
		require.Equal(t, tt.want, got, tt.name)
	}
	chosen := shortFolder(t)
	t.Setenv("TMPDIR", chosen)
	got, err := folderParent(nil, false)
	require.NoError(t, err)
	require.Equal(t, chosen, got, "TMPDIR is a choice")
}

// The next start removes a folder whose owner and reaper are dead, wherever the new folder is.
func TestSweepFolders_everywhere(t *testing.T) {
	t.Setenv("TMPDIR", shortFolder(t))
	for _, parent := range append(diskFolders(), cmp.Or(memoryFolder(), os.TempDir())) {
		stale, err := os.MkdirTemp(parent, folderPrefix) //nolint:usetesting // where a cluster's would be
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(stale) })
		require.NoError(t, os.WriteFile(filepath.Join(stale, lockName), nil, 0o600))
		sweepFolders()
		require.NoDirExists(t, stale)
	}
}

// shortFolder is short enough for a socket's path, as a test's own is not.
func shortFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pg") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
