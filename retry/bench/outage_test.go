package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// In a full outage everybody makes as many requests as attempts and quotas allow.
func TestMeasureCurve(t *testing.T) {
	t.Parallel()
	const calls = 500
	tests := []struct {
		contender
		failing  int
		requests float64 // per call
	}{
		{noRetries, 0, 1},
		{noRetries, 100, 1},
		{retryable, 100, 5},
		{failsafePlain, 100, 3},
		{awsQuotaModel, 0, 1},
		{awsQuotaModel, 100, 1 + float64(awsTokens/awsRetryCost)/calls},
		{grpcThrottleModel, 100, 1},
		{ours, 0, 1},
		{ours, 100, 1 + 100./calls},
	}
	for _, tt := range tests {
		f, err := measureCurve(t.Context(), tt.contender, tt.failing, calls)
		require.NoError(t, err)
		success, requests := f.Measures[0], f.Measures[1]
		require.Equal(t, float64(100-tt.failing), success.Value, f.Name)
		// gRPC's throttle allows up to four, and ours refills by the clock, at one
		// in five seconds.
		require.InDelta(t, tt.requests, requests.Value, 10./calls, f.Name)
	}
}

func TestRandomCallee(t *testing.T) {
	t.Parallel()
	c, again := newRandomCallee(30), newRandomCallee(30)
	for range 3 {
		failures, runs := 0, 0 // runs of equal ends: a deck that is not shuffled has two
		last := false
		for range 1000 {
			fails := c.fails()
			require.Equal(t, fails, again.fails())
			if fails {
				failures++
			}
			if fails != last {
				runs++
			}
			last = fails
		}
		require.Equal(t, 300, failures)
		require.Greater(t, runs, 100)
	}
}
