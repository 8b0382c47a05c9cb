//go:build linux

package demo

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

// longEnough is far beyond what a demo takes to start, or its reaper to clean up, on
// a machine that is busy with other things.
const longEnough = 3 * time.Minute

// However the demo ends, its payment process and its Postgres end too, and
// their folder is gone.
func TestDemo_signals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		signal syscall.Signal
		code   int // -1: killed
	}{
		{syscall.SIGINT, exitNoVerdict},
		{syscall.SIGTERM, exitNoVerdict},
		{syscall.SIGKILL, -1},
	}
	for _, tt := range tests {
		t.Run(tt.signal.String(), func(t *testing.T) {
			t.Parallel()
			mark := "CHECKOUT_TEST=" + rand.Text()
			path, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.Command(path, demoArg, "-n=100000")
			cmd.Env = append(os.Environ(), mark, pgtest.EnvDatabaseURL+"=")
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) }) // if the test fails before its signal
			var folder string
			require.Eventually(t, func() bool {
				all := commandsWith(t, mark)
				folder = postgresFolder(all)
				return folder != "" && strings.Contains(all, paymentArg)
			}, longEnough, 50*time.Millisecond)
			require.NoError(t, cmd.Process.Signal(tt.signal))
			_ = cmd.Wait()
			require.Equal(t, tt.code, cmd.ProcessState.ExitCode())
			gone := func() bool {
				_, err := os.Stat(folder)
				return os.IsNotExist(err) && commandsWith(t, mark) == ""
			}
			if tt.signal == syscall.SIGKILL { // who cleans up then notices a moment later
				require.Eventually(t, gone, longEnough, 50*time.Millisecond, "left: %s", commandsWith(t, mark))
			}
			require.True(t, gone(), "left: %s", commandsWith(t, mark))
		})
	}
}

// commandsWith returns the command lines of the processes that have mark in
// their environment, one a line.
func commandsWith(t *testing.T, mark string) string {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	var b strings.Builder
	for _, environ := range environs {
		env, err := os.ReadFile(environ)
		if err != nil || !bytes.Contains(env, []byte(mark)) {
			continue // gone, another user's, or another's
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(environ), "cmdline"))
		if err == nil && len(command) > 0 { // zombies have none
			fmt.Fprintf(&b, "%s\n", bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
		}
	}
	return b.String()
}

// postgresFolder returns the data folder of the postgres among commands.
func postgresFolder(commands string) string {
	_, after, _ := strings.Cut(commands, " -D ")
	folder, _, _ := strings.Cut(after, " ")
	return folder
}
