package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each engine finishes the saga, and not before the sleep is over.
func TestSleepers(t *testing.T) {
	t.Parallel()
	c := startTestCluster(t, nil)
	for _, contender := range sleepers {
		e, err := contender.start(t.Context(), c)
		require.NoError(t, err, contender.name)
		began := time.Now()
		require.NoError(t, runOnce(t.Context(), e, 4), contender.name)
		require.GreaterOrEqual(t, time.Since(began), pause, contender.name)
		require.NoError(t, end(t.Context(), e), contender.name)
	}
}

// A sleep adds one write on both sides.
func TestMeasureCosts_ofSleepers(t *testing.T) {
	t.Parallel()
	figures, err := measureCosts(t.Context(), startTestCluster(t, costSettings), effort{costRounds: 3, costRuns: 10}, sleepers)
	require.NoError(t, err)
	require.Len(t, figures, len(sleepers))
	for i, withoutSleep := range []float64{steps + 1, 5} {
		require.Equal(t, sleepers[i].name, figures[i].Name)
		require.Greater(t, figures[i].Measures[1].Value, withoutSleep, figures[i].Name)
		require.LessOrEqual(t, figures[i].Measures[1].Value, withoutSleep+1.5, figures[i].Name)
		require.Nil(t, figures[i].Measures[1].Goal, "the goals are those of a saga that does not wait")
	}
}
