package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

func TestLeafHits(t *testing.T) {
	t.Parallel()
	want := map[string]int{
		"go-retryablehttp, 5 attempts":                 5 * 5 * 5,
		"failsafehttp, 3 attempts":                     3 * 3 * 3,
		"retry, 4 attempts, hops that pass nothing on": 4 * 4 * 4,
		"retry, 4 attempts":                            4,
	}
	require.Len(t, hopCases, len(want))
	for _, c := range hopCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := leafHits(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, want[c.name], got)
		})
	}
}

// Not parallel: it counts the goroutines of the process.
func TestLeave(t *testing.T) {
	const calls = 20
	for _, c := range leakContenders {
		left, err := leave(t.Context(), c, calls)
		require.NoError(t, err)
		switch c.name {
		case ours.name:
			require.Zero(t, left.goroutines)
			require.Zero(t, left.bodies)
			// One. But net/http gives a connection up whose request is not seen to
			// be written within 50 ms of the answer, as on an overloaded machine.
			require.Less(t, left.connections, calls)
		case retryable.name:
			require.Zero(t, left.bodies)
			require.Greater(t, left.connections, calls, "it reads 4 KiB of an answer before it closes it")
		default: // which shows that leaks are found
			require.Equal(t, 2*calls, left.bodies)
			require.GreaterOrEqual(t, left.goroutines, 2*calls)
		}
	}
}

func TestSurviveChaos(t *testing.T) {
	t.Parallel()
	const calls = 1000
	for _, c := range chaosCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n, err := surviveChaos(t.Context(), c, calls)
			require.NoError(t, err)
			require.Equal(t, calls, n.succeeded+n.failed)
			require.Greater(t, n.requests, calls, "a bad network makes retries")
			require.Zero(t, n.falselyDone)
			if !c.keyed {
				require.Positive(t, n.twice, "without a key, something must happen twice: else nothing was tested")
				return
			}
			require.Zero(t, n.twice)
			if c.name == ours.name {
				require.Zero(t, n.wrongly)
				require.Positive(t, n.failedYet, "no label was put to the test")
				require.Equal(t, n.failed, n.labels[retry.NotSent]+n.labels[retry.Rejected]+n.labels[retry.Unknown]+n.labels[retry.Completed])
			}
		})
	}
}

func TestTurnedAway(t *testing.T) {
	t.Parallel()
	const left = 4 * time.Second // shorter than Retry-After; on a busy machine one round trip took over 300 ms
	for _, c := range deadlineContenders {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// One call: a second one would wait for the first one's Retry-After, until its time is enough for one attempt on
			// an idle machine.
			took, visible, err := turnedAway(t.Context(), c, 1, left)
			require.NoError(t, err)
			require.Len(t, took, 1)
			if c.name == ours.name {
				require.Equal(t, 1, visible)
			} else {
				require.Zero(t, visible)
			}
		})
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	replies := []reply{
		{status: http.StatusOK, outcome: retry.Completed},
		{status: http.StatusOK, outcome: retry.Completed}, // ran twice
		{status: http.StatusOK, outcome: retry.Completed}, // did not run
		{err: retry.ErrUnknown, outcome: retry.Unknown},   // ran
		{err: retry.ErrNotSent, outcome: retry.NotSent},   // ran
		{err: retry.ErrRejected, outcome: retry.Rejected}, // did not run
	}
	got := count(replies, map[int]int{0: 1, 1: 2, 3: 1, 4: 1}, 9)
	require.Equal(t, census{
		succeeded: 3, failed: 3, failedYet: 2, twice: 1, wrongly: 1, falselyDone: 1, requests: 9,
		labels: map[retry.Outcome]int{retry.Unknown: 1, retry.NotSent: 1, retry.Rejected: 1},
	}, got)
}
