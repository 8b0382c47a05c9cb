// Package languages_test calls a guarded service from other languages, through the faulty network of the demo.
package languages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/examples/internal/faultnet"
	"github.com/fanonce/fanonce/server/pgtest"
)

var calls = flag.Int("languages.calls", 300, "how many calls each client makes")

const (
	clients = "../../childkey/clients"
	ledger  = "../ledger"
	callers = 32 // at once
)

// A line is what a client prints of one call.
type line struct {
	Key, Outcome, Answered, Error string
	Status, Attempts              int
}

func TestPython(t *testing.T) {
	t.Parallel()
	storm(t, "python", "python3", "tests/storm.py")
}

func TestTypeScript(t *testing.T) {
	t.Parallel()
	storm(t, "typescript", "node", "tests/storm.js")
}

// storm has a client make calls through a network that drops, repeats, cuts and delays. Each call ends, and no key has two
// effects. A call that was Completed has one, and a call that was Rejected or NotSent has none.
func storm(t *testing.T, folder, program, script string) {
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("the %s client called no service: %v", folder, err)
	}
	database := pgtest.URL(t)
	service := blackboxtest.StartBinary(t, blackboxtest.Build(t, ledger), "DATABASE_URL="+database, "WORK=1ms").AwaitReady()
	profile, err := faultnet.Named("brutal")
	require.NoError(t, err)
	edge, err := faultnet.Listen(faultnet.Config{Name: folder, Seed: 1, Profile: profile})
	require.NoError(t, err)
	edge.Forward(strings.TrimPrefix(service.URL, "http://"))

	begun := time.Now()
	lines := play(t, folder, program, script, edge.URL()+"/v1/effect")
	took := time.Since(begun)
	require.NoError(t, edge.Close(context.WithoutCancel(t.Context()))) // with it, every late copy has arrived
	require.Len(t, lines, *calls, "calls that ended")

	effects := effectsByKey(t, database)
	outcomes, attempts, keys := map[string]int{}, 0, map[string]bool{}
	for _, l := range lines {
		outcomes[l.Outcome]++
		attempts += l.Attempts
		keys[l.Key] = true
		switch l.Outcome {
		case "Completed":
			require.Equal(t, 1, effects[l.Key], "effects of %+v", l)
			require.Equal(t, l.Key, l.Answered)
		case "Rejected", "NotSent":
			require.Zero(t, effects[l.Key], "effects of %+v", l)
		default:
			require.Equal(t, "Unknown", l.Outcome, "%+v", l)
			require.LessOrEqual(t, effects[l.Key], 1, "effects of %+v", l)
		}
	}
	require.Len(t, keys, *calls)
	for key := range effects {
		require.True(t, keys[key], "an effect of a key that nobody sent: %s", key)
	}
	require.Equal(t, *calls/10, outcomes["Rejected"], "one call in ten is refused: %v", outcomes)
	require.Greater(t, outcomes["Completed"], *calls*8/10, "outcomes: %v", outcomes)
	injected := edge.Counts().Injected()
	require.Greater(t, injected, *calls/5, "faults")
	t.Logf("%s: %d calls, %v, %d attempts, %d faults, %d effects, %v", folder, *calls, outcomes, attempts, injected, len(effects), took.Round(time.Millisecond))
}

// play runs the client's script, and returns what it printed.
func play(t *testing.T, folder, program, script, url string) (lines []line) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, script, url, "tenant", strconv.Itoa(*calls), strconv.Itoa(callers))
	dir, err := filepath.Abs(filepath.Join(clients, folder))
	require.NoError(t, err)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	for text := range strings.Lines(string(out)) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		lines = append(lines, l)
	}
	return lines
}

func effectsByKey(t *testing.T, database string) map[string]int {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), database)
	require.NoError(t, err)
	defer pool.Close()
	rows, err := pool.Query(t.Context(), "select key, count(*) from effects group by key")
	require.NoError(t, err)
	defer rows.Close()
	effects := map[string]int{}
	for rows.Next() {
		var key string
		var n int
		require.NoError(t, rows.Scan(&key, &n))
		effects[key] = n
	}
	require.NoError(t, rows.Err())
	return effects
}
