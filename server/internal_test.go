package server

// This test is inside the package: histograms are not exported.

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistogram_bounds(t *testing.T) {
	t.Parallel()
	var h histogram
	for _, d := range []time.Duration{0, bounds[0], bounds[0] + 1, time.Hour} {
		h.observe(d)
	}
	s := h.snapshot()
	require.EqualValues(t, 4, s.Count)
	require.EqualValues(t, 2, s.Buckets[0].Count)
	require.EqualValues(t, 3, s.Buckets[1].Count)
	require.EqualValues(t, 3, s.Buckets[len(bounds)-1].Count)
}
