package saga_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that runs sagas must not link a server; only one that keeps them in
// Postgres links a driver, and of the server's side pgkit alone.
func TestImports(t *testing.T) {
	t.Parallel()
	const module = "github.com/fanonce/fanonce/"
	engine := []string{
		module + "saga", module + "sdk", module + "retry", module + "childkey", module + "childkey/",
		"github.com/google/uuid", "github.com/hashicorp/go-retryablehttp", "github.com/hashicorp/go-cleanhttp",
	}
	for path, more := range map[string][]string{
		"saga":            nil,
		"saga/memjournal": {module + "saga/memjournal"},
		"saga/pgjournal":  {module + "saga/pgjournal", module + "server/pgkit", "github.com/jackc/", "golang.org/x/"},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
			module+path).Output()
		require.NoError(t, err)
		for dep := range strings.FieldsSeq(string(out)) {
			ok := false
			for _, a := range append(more, engine...) { // what ends in a slash stands for all below it
				ok = ok || dep == a || strings.HasSuffix(a, "/") && strings.HasPrefix(dep, a)
			}
			if !ok {
				t.Errorf("%s links %s", path, dep)
			}
		}
	}
}
