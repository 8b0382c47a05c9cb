package main_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// While a verb waits for a lock, a line comes every few seconds. A short command writes none, and --json is silent.
func TestProgress(t *testing.T) {
	t.Parallel()
	url := database(t)
	unknownKeys(t, url, "k-1", "k-2", "k-3")
	holder := hold(t, url, "select from idempotency where key = (select key from idempotency_attention order by created_at desc, key desc limit 1) for update")
	resolve := []string{"keys", "resolve", "--as", "run-again", "--all", "--reason", "a test", "--timeout", "1m", "--count"}
	silent, _, said := call{database: url, args: append(resolve, "3", "--json")}.command(t.Context())
	require.NoError(t, silent.Start())
	requireWaiting(t, url)
	cmd, _, _ := call{database: url, args: append(resolve, "1")}.command(t.Context())
	cmd.Stderr = nil
	pipe, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, 80)
	n, err := pipe.Read(line)
	require.NoError(t, err)
	require.Regexp(t, `^fanonce: resolve: 0 of 1 \(0%\), for \d+s\n$`, string(line[:n]))
	_, err = holder.Exec(t.Context(), "commit")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, pipe)
	require.NoError(t, err)
	_ = cmd.Wait() // the key that both wanted is refused to one of them
	_ = silent.Wait()
	require.NotContains(t, said.String(), "fanonce: resolve:")
	require.Empty(t, on(t, url, "sweep").requireCode(t, 0).stderr)
}
