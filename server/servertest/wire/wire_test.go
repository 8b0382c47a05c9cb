package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// command runs the command, and returns its exit status and what it wrote.
func command(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestWire_guardedService(t *testing.T) {
	t.Parallel()
	url := serve(t, newCallee(t))
	status, stdout, stderr := command(t, append(calleeFlags(url), "-strict", "-v")...)
	require.Equal(t, statusPassed, status, "%s%s", stdout, stderr)
	require.Contains(t, stdout, fmt.Sprintf("%s: %d rows passed, 0 failed, 0 skipped", url, len(rows())))
}

func TestWire_json(t *testing.T) {
	t.Parallel()
	url := serve(t, newCallee(t))
	status, stdout, _ := command(t, append(calleeFlags(url), "-json", "-run", "^replay/")...)
	require.Equal(t, statusPassed, status)
	var got report
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Equal(t, 0, got.Failed+got.Skipped)
	require.Len(t, got.Rows, 9)
	require.Equal(t, 9, got.Passed)
	for _, l := range got.Rows {
		require.Equal(t, passed, l.Status, l.ID)
		require.True(t, strings.HasPrefix(l.ID, "replay/"), l.ID)
	}
}

// A service that knows no keys fails, and the report names what it saw.
func TestWire_unguardedService(t *testing.T) {
	t.Parallel()
	url := serve(t, http.HandlerFunc(new(callee).work))
	status, stdout, _ := command(t, append(calleeFlags(url), "-run", "^replay/equal$")...)
	require.Equal(t, statusFailed, status)
	require.Contains(t, stdout, "fail  replay/equal")
	require.Contains(t, stdout, "Idempotent-Replayed")
}

func TestWire_skips(t *testing.T) {
	t.Parallel()
	url := serve(t, newCallee(t))
	few := []string{"-url", url, "-path", "/work", "-auth", "Authorization: Bearer a"}
	status, stdout, _ := command(t, append(few, "-run", "^(undo/ran|replay/first)$")...)
	require.Equal(t, statusPassed, status, stdout)
	require.Contains(t, stdout, "skip  undo/ran")
	require.Contains(t, stdout, "needs -undo")
	status, _, _ = command(t, append(few, "-strict", "-run", "^(undo/ran|replay/first)$")...)
	require.Equal(t, statusFailed, status)
	status, _, stderr := command(t, append(few, "-run", "^undo/ran$")...)
	require.Equal(t, statusUsage, status)
	require.Contains(t, stderr, "every row was skipped")
}

func TestWire_nobodyAnswers(t *testing.T) {
	t.Parallel()
	status, stdout, _ := command(t, "-url", "http://127.0.0.1:1", "-run", "^replay/first$")
	require.Equal(t, statusFailed, status)
	require.Contains(t, stdout, "no answer")
}

func TestWire_badUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no URL", nil, "-url"},
		{"URL without host", []string{"-url", "localhost:8080"}, "-url"},
		{"path without slash", []string{"-url", "http://a", "-undo", "undo"}, "-undo"},
		{"empty path", []string{"-url", "http://a", "-path", ""}, "-path"},
		{"empty body", []string{"-url", "http://a", "-body", ""}, "-body"},
		{"header without value", []string{"-url", "http://a", "-auth", "secret"}, "-auth"},
		{"one caller twice", []string{"-url", "http://a", "-auth", "a: b", "-other-auth", "A: b"}, "-other-auth"},
		{"the other caller alone", []string{"-url", "http://a", "-other-auth", "A: b"}, "-other-auth"},
		{"bad pattern", []string{"-url", "http://a", "-run", "("}, "-run"},
		{"bad skip", []string{"-url", "http://a", "-skip", "("}, "-skip"},
		{"everything skipped", []string{"-url", "http://a", "-skip", "/"}, "matches no row"},
		{"no row", []string{"-url", "http://a", "-run", "teapot"}, "matches no row"},
		{"short limit", []string{"-url", "http://a", "-max-body", "1"}, "-max-body"},
		{"argument", []string{"-url", "http://a", "teapot"}, "teapot"},
		{"flag", []string{"-teapot"}, "teapot"},
	} {
		status, _, stderr := command(t, tt.args...)
		require.Equal(t, statusUsage, status, tt.name)
		require.Contains(t, stderr, tt.want, tt.name)
		require.NotContains(t, stderr, "secret", tt.name)
	}
}

func TestRows_haveWhatAReaderNeeds(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range rows() {
		require.Regexp(t, `^[a-z0-9-]+/[a-z0-9-]+$`, r.id)
		require.False(t, seen[r.id], "%s twice", r.id)
		seen[r.id] = true
		for _, text := range []string{r.situation, r.sent, r.want, r.source} {
			require.NotEmpty(t, text, r.id)
			require.NotContains(t, text, "|", r.id)
			require.NotContains(t, text, "\n", r.id)
		}
	}
}

var update = flag.Bool("wire.update", false, "write the rows into CONFORMANCE.md")

const conformance = "../../CONFORMANCE.md"

// CONFORMANCE.md has the rows of the command, word by word.
func TestConformance(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(conformance)
	require.NoError(t, err)
	part := regexp.MustCompile(`(?s)(<!-- rows -->\n).*(\n<!-- end of rows -->)`)
	require.True(t, part.Match(page), "CONFORMANCE.md has no place for the rows")
	want := part.ReplaceAllLiteral(page, []byte("<!-- rows -->\n"+table()+"\n<!-- end of rows -->"))
	if *update {
		require.NoError(t, os.WriteFile(conformance, want, 0o600))
		return
	}
	require.True(t, bytes.Equal(want, page), "CONFORMANCE.md has other rows than the command: go test ./server/servertest/wire -run TestConformance -wire.update")
}

// table returns the rows as CONFORMANCE.md has them.
func table() string {
	var b strings.Builder
	family := ""
	for _, r := range rows() {
		if f, _, _ := strings.Cut(r.id, "/"); f != family {
			family = f
			fmt.Fprintf(&b, "\n### %s\n\n| row | situation | sent | must come back | source | needs |\n| --- | --- | --- | --- | --- | --- |\n", f)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.id, r.situation, r.sent, r.want, r.source, strings.Join(r.needs, " "))
	}
	return b.String()
}
