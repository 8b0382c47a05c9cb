package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
)

// Each contender finishes all sagas, with many running at a time, and gives each caller the
// result of the caller's own saga.
func TestContenders(t *testing.T) {
	t.Parallel()
	c := startTestCluster(t, nil)
	for _, contender := range contenders {
		e, err := contender.start(t.Context(), c)
		require.NoError(t, err, contender.name)
		const callers, each = 8, 5
		errs := make(chan error, callers)
		for caller := range callers {
			go func() {
				var err error
				for n := 0; n < each && err == nil; n++ {
					err = runOnce(t.Context(), e, 100*caller+n)
				}
				errs <- err
			}()
		}
		for range callers {
			require.NoError(t, <-errs, contender.name)
		}
		require.NoError(t, end(t.Context(), e), contender.name)
	}
}

// Our results are in the database before the callers get them.
func TestSagas_areStored(t *testing.T) {
	t.Parallel()
	c := startTestCluster(t, nil)
	e, err := ourSteps.start(t.Context(), c)
	require.NoError(t, err)
	const runs = 7
	require.NoError(t, runMany(t.Context(), e, runs))
	ours, ok := e.engine.(*sagas)
	require.True(t, ok)
	stats, err := ours.journal.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, runs, stats.ByStatus[journal.Completed], "%+v", stats)
	require.NoError(t, end(t.Context(), e))
}

func TestRunOnce(t *testing.T) {
	t.Parallel()
	require.NoError(t, runOnce(t.Context(), &cannedEngine{}, 4))
	require.Error(t, runOnce(t.Context(), &cannedEngine{skew: 1}, 4), "a wrong result is no saga")
	require.ErrorIs(t, runOnce(t.Context(), &cannedEngine{err: errBroken}, 4), errBroken)
}

// A cannedEngine runs sagas without a database.
type cannedEngine struct {
	pause time.Duration // of each saga
	skew  int           // added to each result
	err   error
	runs  atomic.Int64
}

func (e *cannedEngine) run(_ context.Context, in int) (int, error) {
	e.runs.Add(1)
	time.Sleep(e.pause) // how long a run takes is what is compared
	return in + steps + e.skew, e.err
}

func (e *cannedEngine) close(context.Context) error { return e.err }
