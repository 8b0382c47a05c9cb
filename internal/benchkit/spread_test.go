package benchkit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/benchkit"
)

func TestSpread(t *testing.T) {
	t.Parallel()
	values := []float64{9, 3, 1}
	s := benchkit.SpreadOf(values)
	require.Equal(t, benchkit.Spread{Median: 3, Low: 1, High: 9}, s)
	require.Equal(t, []float64{9, 3, 1}, values, "their order is the caller's")
	goal := benchkit.AtMost(2)
	require.Equal(t, benchkit.Measure{Name: "time", Value: 3, Unit: "x", Low: 1, High: 9, Goal: goal}, s.Measure("time", "x", goal))
	require.Zero(t, benchkit.SpreadOf(nil))
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	waits := []time.Duration{4, 1, 3, 2}
	require.Equal(t, time.Duration(3), benchkit.Percentile(waits, 0.5))
	require.Equal(t, time.Duration(4), benchkit.Percentile(waits, 1))
	require.Zero(t, benchkit.Percentile[time.Duration](nil, 0.5))
	require.InDelta(t, 1.5, benchkit.Milliseconds(1500*time.Microsecond), 0)
}
