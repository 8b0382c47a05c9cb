package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
)

// What counts must be right on any machine, however slow.
func TestContested(t *testing.T) {
	t.Parallel()
	figures, err := measureContested(t.Context(), newLab(t), mini)
	require.NoError(t, err)
	for _, m := range figures[0].Measures {
		require.True(t, m.Goal == nil || m.Goal.met(m.Value), "%s: %g", m.Name, m.Value)
	}
}

// Not parallel: it sets the environment.
func TestRaceProgram(t *testing.T) {
	program, folder, err := raceProgram(t.Context())
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, err)
	require.True(t, detects(program))
	if folder == "" { // this test has the detector itself
		return
	}
	t.Setenv("PATH", t.TempDir())
	_, another, err := raceProgram(t.Context())
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(another)) })
	require.ErrorIs(t, err, errNotBuilt, "nothing is judged without")
}

func TestDetects_noProgram(t *testing.T) {
	t.Parallel()
	require.False(t, detects(filepath.Join(t.TempDir(), "none")))
}

// A flush that waits for somebody's lock is seen to be taken apart.
func TestFailedFlushes(t *testing.T) {
	t.Parallel()
	db := openDatabase(t, newPostgres(t), pgstore.Migrate)
	s, failed, err := openContestant(t.Context(), db.url)
	require.NoError(t, err)
	defer s.Close()

	taken := random()
	other, err := db.look.Begin(t.Context())
	require.NoError(t, err)
	defer other.Rollback(context.Background())
	_, err = other.Exec(t.Context(), `insert into idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, created_at, lease_until, expires_at)
		values ($1, $1, 1, 1, 2, 1, $2, now(), now(), now())`, taken, requestHash)
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for i := range 16 {
		running.Go(func() {
			for ctx.Err() == nil {
				id := random()
				if i == 0 {
					id = taken
				}
				if err := complete(ctx, s, id); err != nil && !errors.Is(err, errNotFirst) && ctx.Err() == nil && i > 0 {
					t.Errorf("a neighbour: %v", err)
				}
			}
		})
	}
	require.Eventually(t, func() bool { return failed.lockTimeouts.Load() > 0 }, time.Minute, time.Millisecond)
	stop()
	require.NoError(t, other.Rollback(t.Context()))
}
