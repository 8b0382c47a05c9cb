package clients_test

import (
	"os"
	"os/exec"
	"testing"
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
