package main_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var resolveAll = []string{"keys", "resolve", "--as", "run-again", "--all", "--yes", "--reason", "a test", "--timeout", "1m"}

// held is a database with three unknown keys, of which a transaction holds the last one.
func held(t *testing.T) (url string, release func()) {
	t.Helper()
	url = database(t)
	unknownKeys(t, url, "k-1", "k-2", "k-3")
	holder := hold(t, url, "select from idempotency where key = (select key from idempotency_attention order by created_at desc, key desc limit 1) for update")
	return url, func() {
		_, err := holder.Exec(t.Context(), "commit")
		require.NoError(t, err)
	}
}

// On a terminal a bar shows how far a verb is. It fits the terminal, and is gone at the end.
func TestProgress_onTerminal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, environ string
		want, not     string
	}{
		{"in colour", "TERM=xterm", "[\x1b[32m", "fanonce: resolve"},
		{"without colour", "NO_COLOR=1", "resolve  [=", "\x1b[32m"},
		{"that draws nothing", "TERM=dumb", "fanonce: resolve: 2 of 3 (66%)", "["},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url, release := held(t)
			screen := openTerminal(t, 60)
			cmd, _, _ := call{database: url, args: resolveAll}.command(t.Context())
			cmd.Env = append(cmd.Env, "TERM=xterm", tt.environ)
			cmd.Stderr = screen.file
			require.NoError(t, cmd.Start())
			require.Eventually(t, func() bool { return strings.Contains(screen.text(), "2 of 3") }, patience, time.Millisecond)
			release()
			require.NoError(t, cmd.Wait())
			if tt.environ != "TERM=dumb" { // the terminal hands on what was written a little later
				require.Eventually(t, func() bool { return strings.HasSuffix(screen.text(), "\r\x1b[K") }, patience, time.Millisecond, "the bar stays")
			}
			seen := screen.text()
			require.Contains(t, seen, tt.want)
			require.NotContains(t, seen, tt.not)
			if tt.environ == "TERM=dumb" {
				return
			}
			require.NotContains(t, seen, "\n", "the bar wraps or is repeated")
			plain := strings.NewReplacer("\x1b[32m", "", "\x1b[0m", "", "\x1b[K", "").Replace(seen)
			for _, line := range strings.Split(plain, "\r") {
				require.Less(t, len(line), 60)
			}
		})
	}
}

// If stderr is a file or a pipe, a line comes every few seconds. A short command writes none.
func TestProgress_elsewhere(t *testing.T) {
	t.Parallel()
	url, release := held(t)
	cmd, _, _ := call{database: url, args: resolveAll}.command(t.Context())
	cmd.Stderr = nil
	pipe, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, 80)
	n, err := pipe.Read(line)
	require.NoError(t, err)
	require.Regexp(t, `^fanonce: resolve: 2 of 3 \(66%\), [0-9.]+/s, \d+s left\n$`, string(line[:n]))
	release()
	_, err = io.Copy(io.Discard, pipe)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())

	require.Empty(t, on(t, url, "sweep").requireCode(t, 0).stderr)
}

// --json is silent, also on a terminal.
func TestProgress_json(t *testing.T) {
	t.Parallel()
	url, release := held(t)
	screen := openTerminal(t, 60)
	silent, _, _ := call{database: url, args: append(resolveAll, "--json")}.command(t.Context())
	silent.Env = append(silent.Env, "TERM=xterm")
	silent.Stderr = screen.file
	require.NoError(t, silent.Start())
	requireWaiting(t, url)
	time.Sleep(time.Second / 2) // a bar would be drawn five times
	release()
	require.NoError(t, silent.Wait())
	require.Empty(t, screen.text())
}
