package pgkit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

func TestRetryConflict_pauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conflict := answer("ERROR", "40P01")
		var at []time.Duration
		start := time.Now()
		_, err := pgkit.RetryConflict(t.Context(), func() (int, error) {
			at = append(at, time.Since(start))
			return 0, conflict
		})
		require.ErrorIs(t, err, conflict)
		require.Len(t, at, 3)
		require.Less(t, at[1], 20*time.Millisecond)
		require.Less(t, at[2]-at[1], 40*time.Millisecond)
		require.Equal(t, at[2], time.Since(start), "no pause after the last")
	})
}

// The caller learns why it failed, not merely that its time is over.
func TestRetryConflict_ctxEndsInPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conflict := answer("ERROR", "40001")
		ctx, cancel := context.WithCancel(t.Context())
		start, tries := time.Now(), 0
		_, err := pgkit.RetryConflict(ctx, func() (int, error) {
			tries++
			cancel() // so that it has ended when the pause begins
			return 0, conflict
		})
		require.ErrorIs(t, err, conflict)
		require.Equal(t, 1, tries)
		require.Zero(t, time.Since(start))
	})
}
