package clients_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The module's own tests: the vectors, the inputs that are refused, the table of calls, and sockets.
func TestPython(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("the Python client was not tested: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-W", "error", "-m", "unittest", "discover", "-s", "tests")
	cmd.Dir = "python"
	cmd.Env = append(os.Environ(), "PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// The package that a user installs has the types and the licence, as a text and in its metadata.
func TestPython_package(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "python3", "-c", "import setuptools.build_meta").Run(); err != nil {
		t.Skipf("the Python package was not made: %v", err)
	}
	source, out := t.TempDir(), t.TempDir() // setuptools writes into the source
	require.NoError(t, os.CopyFS(source, os.DirFS("python")))
	run(t, source, "python3", "-c", "import setuptools.build_meta, sys; setuptools.build_meta.build_sdist(sys.argv[1])", out)
	run(t, out, "tar", "-xzf", "fanonce-0.0.0.tar.gz", "--strip-components=1")
	published := readFolder(t, out)

	require.Contains(t, published, "fanonce/py.typed")
	want, err := os.ReadFile("../../LICENSE")
	require.NoError(t, err)
	require.Equal(t, string(want), published["LICENSE"])
	require.Regexp(t, `(?m)^License(-Expression)?: Apache-2.0$`, published["PKG-INFO"])
	require.Regexp(t, `(?m)^License-File: LICENSE$`, published["PKG-INFO"])
}
