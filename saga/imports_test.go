package saga_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A journal in memory must not link a client. A program that runs sagas must not link a
// server. Only a program that keeps them in Postgres links a driver, and pgkit.
func TestImports(t *testing.T) {
	t.Parallel()
	const module = "github.com/fanonce/fanonce/"
	records := []string{
		module + "saga/journal", module + "retry", module + "childkey", module + "childkey/", module + "internal/errtext",
		"github.com/google/uuid", "github.com/hashicorp/go-retryablehttp", "github.com/hashicorp/go-cleanhttp",
	}
	for path, more := range map[string][]string{
		"saga/journal":    nil,
		"saga/memjournal": {module + "saga/memjournal"},
		"saga":            {module + "saga", module + "saga/internal/engine", module + "saga/internal/graph", module + "sdk"},
		"saga/pgjournal":  {module + "saga", module + "saga/internal/engine", module + "saga/internal/graph", module + "sdk", module + "saga/pgjournal", module + "internal/pgkit", module + "internal/pgkit/component", "github.com/jackc/", "golang.org/x/"},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
			module+path).Output()
		require.NoError(t, err)
		for dep := range strings.FieldsSeq(string(out)) {
			ok := false
			for _, a := range append(more, records...) { // what ends in a slash stands for all below it
				ok = ok || dep == a || strings.HasSuffix(a, "/") && strings.HasPrefix(dep, a)
			}
			if !ok {
				t.Errorf("%s links %s", path, dep)
			}
		}
	}
}
