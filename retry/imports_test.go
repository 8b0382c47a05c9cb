package retry_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestImports checks what a program that imports retry links.
func TestImports(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	allowed := []string{
		"github.com/fanonce/fanonce/retry", "github.com/fanonce/fanonce/childkey",
		"github.com/fanonce/fanonce/internal/errtext",
		"github.com/google/uuid", // of childkey
		"github.com/hashicorp/go-retryablehttp", "github.com/hashicorp/go-cleanhttp",
	}
	for _, pkg := range strings.Fields(string(out)) {
		ok := false
		for _, a := range allowed {
			ok = ok || pkg == a || strings.HasPrefix(pkg, a+"/")
		}
		if !ok {
			t.Errorf("retry links %s", pkg)
		}
	}
}
