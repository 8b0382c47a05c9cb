package saga_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that runs sagas must not link a server; only one that keeps them in
// Postgres links a driver.
func TestImports(t *testing.T) {
	t.Parallel()
	const module = "github.com/fanonce/fanonce/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		module+"saga", module+"saga/memjournal").Output()
	require.NoError(t, err)
	allowed := []string{
		module + "saga", module + "saga/memjournal", module + "sdk", module + "retry", module + "childkey",
		"github.com/google/uuid", "github.com/hashicorp/go-retryablehttp", "github.com/hashicorp/go-cleanhttp",
	}
	for path := range strings.FieldsSeq(string(out)) {
		ok := strings.HasPrefix(path, module+"childkey/")
		for _, a := range allowed {
			ok = ok || path == a
		}
		if !ok {
			t.Errorf("saga links %s", path)
		}
	}
}
