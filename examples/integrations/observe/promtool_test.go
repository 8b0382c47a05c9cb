package observe

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// promtool returns Prometheus' tool. Without it t is skipped.
func promtool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool on PATH (Debian package prometheus): alerts and dashboard are not checked")
	}
	return path
}

// The alerts are valid, and fire when they should, and only then.
func TestAlerts(t *testing.T) {
	t.Parallel()
	tool := promtool(t)
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// runbookURL is where ONCALL.md is for whoever is woken, with the anchor of a heading behind it.
const runbookURL = "https://github.com/fanonce/fanonce/blob/HEAD/server/ONCALL.md#"

// Each alert says which service it is about and what to do, leads to its section in the guide for people on call, and has a unit test
// in which it fires and one in which it is quiet.
func TestAlerts_areTested(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	tests, err := os.ReadFile("alerts_test.yml")
	require.NoError(t, err)
	runbook, err := os.ReadFile("../../../server/ONCALL.md")
	require.NoError(t, err)
	alerts := strings.Split(string(rules), "- alert: ")[1:]
	require.NotEmpty(t, alerts)
	for _, rule := range alerts {
		name, rule, _ := strings.Cut(rule, "\n")
		if !strings.Contains(rule, "fanonce:") { // a recorded series, which has the job
			require.Contains(t, rule, "by (job", name)
		}
		require.Contains(t, rule, `summary: "{{ $labels.job }}: `, name)
		require.Contains(t, rule, "description: ", name)
		require.Contains(t, string(runbook), "\n## "+name+"\n", "ONCALL.md has no heading for it, and so no anchor for its runbook URL")
		require.Contains(t, rule, "runbook_url: "+runbookURL+strings.ToLower(name)+"\n", name)
		fires := regexp.MustCompile(`alertname: ` + name + `\s+exp_alerts:`)
		require.Regexp(t, fires, string(tests), name)
		require.Contains(t, string(tests), "alertname: "+name+"}", "%s is not tested where it is quiet", name)
	}
}

// variables are Grafana's, with values.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$route", ".*", "$job", ".*")

// The queries of the dashboard are valid: promtool reads them as rules.
func TestDashboard_queries(t *testing.T) {
	t.Parallel()
	tool := promtool(t)
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal(text, &board))
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			expr, err := json.Marshal(variables.Replace(target.Expr))
			require.NoError(t, err)
			rules.WriteString("      - record: panel:query\n        expr: " + string(expr) + "\n")
		}
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	require.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o600))
	out, err := exec.CommandContext(t.Context(), tool, "check", "rules", "--lint=none", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
