package clients_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/npmtest"
)

// The package's own tests: the vectors, the inputs that are refused, the table of calls, and sockets. They need Node alone.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	need(t, "node")
	files, err := filepath.Glob("typescript/tests/*.test.js")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	args := []string{"--test"}
	for _, file := range files {
		args = append(args, "tests/"+filepath.Base(file))
	}
	run(t, "typescript", "node", args...)
}

// The files in dist are in the tree, so that nobody needs a compiler to use the client. They are what the compiler makes
// of src, in its strict mode: dist is for import, and dist/cjs for require.
func TestTypeScript_dist(t *testing.T) {
	t.Parallel()
	need(t, "node", "npm")
	out := t.TempDir()
	compile(t, "typescript", "-p", ".", "--outDir", out)
	compile(t, "typescript", "-p", "tsconfig.cjs.json", "--outDir", filepath.Join(out, "cjs"))
	made, kept := readFolder(t, out), readFolder(t, "typescript/dist")
	made["cjs/package.json"] = "{\n  \"type\": \"commonjs\"\n}\n" // without it Node would take these files for modules
	for name, text := range made {
		require.Equal(t, text, kept[name], "dist/%s is not what src makes: npm run build", name)
	}
	require.Len(t, kept, len(made), "dist has files that src does not make")
}

// No file of src needs more than browsers and Node share.
func TestTypeScript_needsNoNode(t *testing.T) {
	t.Parallel()
	for name, text := range readFolder(t, "typescript/src") {
		require.NotContains(t, text, "node:", name)
		require.NotContains(t, text, "require(", name)
		for line := range strings.Lines(text) {
			if _, from, found := strings.Cut(line, " from '"); found {
				require.True(t, strings.HasPrefix(from, "./"), "%s: %s", name, line)
			}
		}
	}
}

// The package makes the same keys and calls in a browser. Two requests use the browser's own fetch.
func TestTypeScript_browser(t *testing.T) {
	t.Parallel()
	file := os.Getenv("CHROMIUM")
	if file == "" {
		found, err := exec.LookPath("chromium")
		if err != nil {
			t.Skip("no chromium on PATH: apt-get install chromium, or set CHROMIUM to its file")
		}
		file = found
	}
	files := httptest.NewServer(http.FileServer(http.Dir("../..")))
	defer files.Close()
	page := files.URL + "/childkey/clients/typescript/tests/browser.html"
	shown := run(t, t.TempDir(), file, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--timeout=120000", "--virtual-time-budget=60000", "--dump-dom", page)
	require.Contains(t, shown, "<title>passed</title>")
}

// The package as npm publishes it runs without a compiler, and has types for browsers and for Node. npm runs none of its
// scripts, and installs nothing else.
func TestTypeScript_package(t *testing.T) {
	t.Parallel()
	need(t, "node", "npm")
	dir := t.TempDir()
	run(t, "typescript", "npm", "pack", "--ignore-scripts", "--silent", "--pack-destination", dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private": true, "type": "module"}`), 0o600))
	run(t, dir, "npm", "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", "./fanonce-0.0.0.tgz")
	checkPublished(t, filepath.Join(dir, "node_modules", "fanonce"))

	said := run(t, dir, "node", "--input-type=module", "-e", `
		import { derive } from 'fanonce';
		console.log(derive('018f3c1e-7b7a-4d2c-9a51-0c6d5e4f3a2b', 'payment', 'charge'));`)
	require.Equal(t, "a8a1a15ccb704b1551db7aaf0445a2c1\n", said)
	said = run(t, dir, "node", "--input-type=commonjs", "-e", `
		const { derive } = require('fanonce');
		console.log(derive('018f3c1e-7b7a-4d2c-9a51-0c6d5e4f3a2b', 'payment', 'charge'), require.resolve('fanonce'));`)
	require.Contains(t, said, "a8a1a15ccb704b1551db7aaf0445a2c1 ")
	require.Contains(t, said, filepath.Join("dist", "cjs", "index.js"))

	text, err := os.ReadFile("typescript/tests/types/consumer.ts")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "consumer.ts"), text, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "consumer.cts"), text, 0o600))
	strict := []string{"--noEmit", "--strict", "--exactOptionalPropertyTypes", "--target", "es2022", "consumer.ts"}
	compile(t, dir, append([]string{"--lib", "es2022,dom,dom.iterable", "--module", "esnext", "--moduleResolution", "bundler"}, strict...)...)
	modules, err := npmtest.Modules("typescript")
	require.NoError(t, err)
	types := filepath.Join(modules, "@types")
	node := []string{"--lib", "es2022", "--typeRoots", types, "--types", "node"}
	compile(t, dir, append(append(node, "--module", "nodenext", "--moduleResolution", "nodenext", "consumer.cts"), strict...)...)
	compile(t, dir, append(append(node, "--module", "commonjs", "--moduleResolution", "node10"), strict...)...)
}

func checkPublished(t *testing.T, dir string) {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), "*")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"LICENSE", "README.md", "dist", "package.json"}, names)
	license, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
	require.NoError(t, err)
	root, err := os.ReadFile("../../LICENSE")
	require.NoError(t, err)
	require.Equal(t, string(root), string(license))
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	require.NoError(t, err)
	var manifest struct {
		Dependencies, PeerDependencies, OptionalDependencies map[string]string
		Scripts                                              map[string]string
	}
	require.NoError(t, json.Unmarshal(text, &manifest))
	require.Empty(t, manifest.Dependencies)
	require.Empty(t, manifest.PeerDependencies)
	require.Empty(t, manifest.OptionalDependencies)
	for name := range manifest.Scripts {
		require.Contains(t, []string{"build", "test"}, name, "npm runs no script of a package that somebody installs")
	}
}

// A lock file that names a registry's host would bind its readers to that host.
func TestTypeScript_lockNamesNoRegistry(t *testing.T) {
	t.Parallel()
	require.NoError(t, npmtest.CheckLock("typescript"))
}

func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the TypeScript client was not tested: %v", err)
		}
	}
}

// run runs a program in a folder, and returns what it printed.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s %v\n%s%s", program, args, out, &stderr)
	return string(out)
}

// compile runs the TypeScript compiler of the lock file.
func compile(t *testing.T, dir string, args ...string) {
	t.Helper()
	modules, err := npmtest.Modules("typescript")
	require.NoError(t, err)
	run(t, dir, "node", append([]string{filepath.Join(modules, "typescript", "bin", "tsc")}, args...)...)
}

// readFolder returns the files below dir by their path in it.
func readFolder(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, tree := map[string]string{}, os.DirFS(dir)
	require.NoError(t, fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		files[name] = string(text)
		return err
	}))
	require.NotEmpty(t, files)
	return files
}
