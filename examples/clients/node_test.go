package clients

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// nodeSettings are those of npm packages; each has a file in the folder node.
func nodeSettings() []setting {
	var settings []setting
	add := func(client, file, name, export string, recommended bool, render renderFunc) {
		settings = append(settings, setting{
			client: client, name: name, recommended: recommended, render: render,
			programs: []string{"node", "npm"}, keyless: export == "keyless", call: node(file, export),
		})
	}
	for _, client := range []struct {
		name, file, defaults string
		render               renderFunc
	}{
		{"stripe (node)", "stripe", "its defaults (2 retries)", StripeProblem},
		{"openai", "openai", "its defaults (2 retries)", nil},
		{"undici RetryAgent", "undici", "its defaults (no POST)", nil},
		{"axios-retry", "axios", "its defaults (3 retries, no 5xx)", nil},
		{"got", "got", "its defaults (no POST)", nil},
		{"ky", "ky", "its defaults (no POST)", nil},
	} {
		add(client.name, client.file, client.defaults, "defaults", false, nil)
		add(client.name, client.file, "as recommended", "recommended", true, client.render)
	}
	add("openai", "openai", "idempotencyKey without a header's name", "keyless", false, nil)
	return settings
}

// node makes a runFunc of one export of a file in the folder node. All calls are in one process.
func node(file, export string) runFunc {
	return func(t *testing.T, url string, keys []string) []outcome {
		cmd := exec.CommandContext(t.Context(), "node", filepath.Join(scripts(t), "run.mjs"), file, export, url)
		cmd.Stdin = strings.NewReader(strings.Join(keys, "\n"))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, "%s", stderr.Bytes())
		var outcomes []outcome
		require.NoError(t, json.Unmarshal(out, &outcomes), "%s", out)
		return outcomes
	}
}

// scripts returns a folder with copies of the scripts, and with the packages that they import.
func scripts(t *testing.T) string {
	t.Helper()
	modules, err := packages()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("node")))
	require.NoError(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	return dir
}

// packages returns the folder of the packages that the lock file names. npm installs them once for each lock file, into
// the user's cache. No file of a package enters the tree.
var packages = sync.OnceValues(func() (string, error) {
	lock, err := os.ReadFile("node/package-lock.json")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	parent := filepath.Join(cache, "fanonce-examples-clients")
	installed := filepath.Join(parent, fmt.Sprintf("%x", sha256.Sum256(lock)))
	modules := filepath.Join(installed, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules, nil
	}
	if err := os.MkdirAll(parent, 0o750); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := npm(dir); err != nil {
		return "", err
	}
	// Another test binary may have been faster. Its folder is as good.
	if err := os.Rename(dir, installed); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return modules, nil
})

func npm(dir string) error {
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join("node", name))
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
	return nil
}

// A lock file that names a registry's host would bind its readers to that host.
func TestPackages_lockNamesNoRegistry(t *testing.T) {
	t.Parallel()
	lock, err := os.ReadFile("node/package-lock.json")
	require.NoError(t, err)
	require.NotContains(t, string(lock), `"resolved"`)
	require.Contains(t, string(lock), `"integrity"`)
}
