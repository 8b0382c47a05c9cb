package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/store"
)

// Every measure with a goal must meet it on any machine, however slow.
func TestContested(t *testing.T) {
	t.Parallel()
	skipWithoutCompiler(t)
	figures, err := measureContested(t.Context(), newLab(t), mini)
	require.NoError(t, err)
	for _, m := range figures[0].Measures {
		require.True(t, m.Goal == nil || m.Goal.Met(m.Value), "%s: %g", m.Name, m.Value)
	}
}

// Not parallel: it sets the environment.
func TestRaceProgram(t *testing.T) {
	skipWithoutCompiler(t)
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

// A flush that fails for somebody's key is seen to: where that waits for too long to be
// committed, and where it is committed meanwhile.
func TestFailedFlushes(t *testing.T) {
	t.Parallel()
	db := openDatabase(t, newPostgres(t), migrateStore)
	s, failed, err := openContestant(t.Context(), db.url)
	require.NoError(t, err)
	defer s.Close()

	var taken atomic.Pointer[store.ID] // which one of the callers wants
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for i := range 16 {
		running.Go(func() {
			for ctx.Err() == nil {
				id := random()
				if other := taken.Load(); i == 0 && other != nil {
					id = *other
				}
				if err := complete(ctx, s, id); err != nil && !errors.Is(err, errNotFirst) && ctx.Err() == nil && i > 0 {
					t.Errorf("a neighbour: %v", err)
				}
			}
		})
	}
	waits := func() bool {
		n, err := db.count(t.Context(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'transactionid'")
		require.NoError(t, err)
		return n > 0
	}
	insert := func() pgx.Tx {
		id := store.ID(random())
		other, err := db.look.Begin(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = other.Rollback(context.Background()) })
		_, err = other.Exec(t.Context(), `insert into idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, created_at, lease_until, expires_at)
			values ($1, $1, 1, 1, 2, 1, $2, now(), now() + interval '1 hour', now() + interval '1 hour')`, [16]byte(id), requestHash)
		require.NoError(t, err)
		taken.Store(&id)
		return other
	}
	// A claim that waits for a lock alone counts as no flush, and its key goes alone from then on: another key is tried.
	for start := time.Now(); failed.lockTimeouts.Load() == 0; {
		require.Less(t, time.Since(start), time.Minute)
		other := insert()
		for tried := time.Now(); failed.lockTimeouts.Load() == 0 && time.Since(tried) < 3*time.Second; {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, other.Rollback(t.Context()))
	}
	for start := time.Now(); failed.collisions.Load() == 0; {
		require.Less(t, time.Since(start), time.Minute)
		other := insert()
		require.Eventually(t, waits, time.Minute, time.Millisecond)
		require.NoError(t, other.Commit(t.Context()))
	}
}
