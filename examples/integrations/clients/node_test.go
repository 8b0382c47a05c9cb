package clients

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/npmtest"
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
	modules, err := npmtest.Modules("node")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("node")))
	require.NoError(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	return dir
}

// A lock file that names a registry's host would bind its readers to that host.
func TestPackages_lockNamesNoRegistry(t *testing.T) {
	t.Parallel()
	require.NoError(t, npmtest.CheckLock("node"))
}
