package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/natsstore/natstest"
)

func powerLoss(t *testing.T, always bool) *losses {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("no strace on PATH (Debian package strace): the loss of power is not simulated")
	}
	return loss(t.Context(), t, lossConfig{
		servers: natstest.Config{SyncAlways: always}, callers: 16, keys: 600, every: 500 * time.Millisecond, power: true,
	})
}

// A server that flushes each write loses nothing with its power.
func TestLoss_powerWithFlush(t *testing.T) {
	r := powerLoss(t, true)
	t.Log(r)
	require.Positive(t, r.kills)
	require.True(t, r.clean(), "%v", r)
	require.EqualValues(t, 600, r.completions)
}

// A server with the default setting loses what it acknowledged, and so the simulation has an effect.
func TestLoss_powerWithoutFlush(t *testing.T) {
	r := powerLoss(t, false)
	t.Log(r)
	require.Positive(t, r.bytes)
	require.Positive(t, r.lostClaims)
	require.Positive(t, r.secondRuns)
}

// The lines are those of strace 6.1 for a process with threads.
func TestTracer_read(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, lines string
		want        block
	}{
		{"written", `pwrite64(9</d/1.blk>, ""..., 100, 50) = 100`, block{150, 50}},
		{"flushed", "pwrite64(9</d/1.blk>, \"\"..., 100, 50) = 100\nfsync(9</d/1.blk>) = 0", block{150, 150}},
		{"written again", "pwrite64(9</d/1.blk>, \"\"..., 100, 50) = 100\n[pid 7] fsync(9</d/1.blk>) = 0\n[pid 8] pwrite64(9</d/1.blk>, \"\"..., 10, 150) = 10",
			block{160, 150}},
		{"not flushed to the end", "pwrite64(9</d/1.blk>, \"\"..., 100, 50) = 100\n[pid   7] fsync(9</d/1.blk> <unfinished ...>", block{150, 50}},
		{"flushed at last", "pwrite64(9</d/1.blk>, \"\"..., 100, 50) = 100\n[pid   7] fsync(9</d/1.blk> <unfinished ...>\n[pid   8] pwrite64(3</d/2.blk>, \"\"..., 1, 0) = 1\n[pid   7] <... fsync resumed>) = 0",
			block{150, 150}},
		{"written during the flush", "pwrite64(9</d/1.blk>, \"\"..., 100, 50) = 100\n[pid   7] fsync(9</d/1.blk> <unfinished ...>\n[pid   8] pwrite64(9</d/1.blk>, \"\"..., 9, 150) = 9\n[pid   7] <... fsync resumed>) = 0",
			block{159, 150}},
		{"flush failed at once", "pwrite64(9</d/1.blk>, \"\"..., 100, 50) = 100\nfsync(9</d/1.blk>) = -1 EIO (Input/output error)", block{150, 50}},
		{"flush failed", "pwrite64(9</d/1.blk>, \"\"..., 100, 50) = 100\nfsync(9</d/1.blk> <unfinished ...>\n<... fsync resumed>) = -1 EIO", block{150, 50}},
		{"another file", "pwrite64(9</d/1.blk>, \"\"..., 100, 50) = 100\nfsync(9</d/2.blk>) = 0", block{150, 50}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr := &tracer{blocks: make(map[string]*block)}
			tr.read(strings.NewReader(tt.lines), func() {})
			require.Equal(t, tt.want, *tr.blocks["/d/1.blk"])
		})
	}
}
