package saga_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/internal/engine"
)

// The engine has these constants too, since it does not import package saga.
func TestConstants_areTheEngines(t *testing.T) {
	t.Parallel()
	require.Equal(t, engine.DefaultAttempts, saga.DefaultAttempts)
	require.Equal(t, engine.DefaultUndoBudget, saga.DefaultUndoBudget)
	require.Equal(t, engine.MaxSteps, saga.MaxSteps)
	require.EqualValues(t, engine.MaxDuration, saga.MaxDuration)
	for want, got := range map[string]saga.EventKind{
		engine.EventAttempt:      saga.EventAttempt,
		engine.EventMoved:        saga.EventMoved,
		engine.EventTookOver:     saga.EventTookOver,
		engine.EventLeaseLost:    saga.EventLeaseLost,
		engine.EventDeferred:     saga.EventDeferred,
		engine.EventLeftToNewer:  saga.EventLeftToNewer,
		engine.EventWriteRefused: saga.EventWriteRefused,
		engine.EventJournalError: saga.EventJournalError,
		engine.EventNoResult:     saga.EventNoResult,
		engine.EventSwept:        saga.EventSwept,
		engine.EventSweepError:   saga.EventSweepError,
		engine.EventPanic:        saga.EventPanic,
	} {
		require.EqualValues(t, want, got)
	}
}
