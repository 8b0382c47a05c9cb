package sdktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// A clock panics. It is called under the store's lock; the panic passes on, and leaves neither the lock nor an intent
// behind.
func TestCallbacks_now(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	panics := true
	now := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	s := &sdktest.Intents{Now: func() time.Time {
		if panics {
			panic("boom")
		}
		return now
	}}
	key := childkey.MustParse("k")
	require.PanicsWithValue(t, "boom", func() { _, _, _ = s.Begin(ctx, key, "job", nil) })
	panics = false
	returned := make(chan struct{})
	go func() {
		for _, want := range []bool{false, true} {
			began, existed, err := s.Begin(ctx, key, "job", nil)
			assert.NoError(t, err)
			assert.Equal(t, now, began)
			assert.Equal(t, want, existed)
		}
		close(returned)
	}()
	select {
	case <-returned:
	case <-ctx.Done():
		require.Fail(t, "the store is still locked")
	}
}
