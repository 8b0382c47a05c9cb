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
}
