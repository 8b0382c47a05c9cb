package saga_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/internal/graph"
)

// The engine has these constants too, since it does not import package saga.
func TestConstants_areTheEngines(t *testing.T) {
	t.Parallel()
	require.Equal(t, graph.DefaultAttempts, saga.DefaultAttempts)
	require.Equal(t, graph.DefaultUndoBudget, saga.DefaultUndoBudget)
	require.Equal(t, graph.MaxSteps, saga.MaxSteps)
	require.EqualValues(t, graph.MaxDuration, saga.MaxDuration)
}
