package component_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/server/pgtest"
)

func TestCheckServer(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Durable: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	url := cluster.URL("postgres")
	for _, tt := range []struct {
		name           string
		setting, value string
		allow          bool
		want           error
	}{
		{"durable", "application_name", "x", false, nil},
		{"commits are not flushed", "synchronous_commit", "off", false, component.ErrNotDurable},
		{"that is allowed", "synchronous_commit", "off", true, nil},
		{"flushed here only", "synchronous_commit", "local", false, nil},
		{"warnings are not heard", "client_min_messages", "error", false, component.ErrNotDurable},
		{"read-only", "default_transaction_read_only", "on", false, component.ErrReadOnly},
		{"read-only, durable or not", "default_transaction_read_only", "on", true, component.ErrReadOnly},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := newPoolAt(t, url, session(tt.setting, tt.value))
			require.ErrorIs(t, component.CheckServer(t.Context(), pool, tt.allow), tt.want)
		})
	}
	t.Run("fsync is off", func(t *testing.T) {
		fast, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
		require.NoError(t, err)
		defer fast.Stop()
		pool := newPoolAt(t, fast.URL("postgres"))
		defer pool.Close()
		var notDurable *component.DurabilityError
		require.ErrorAs(t, component.CheckServer(t.Context(), pool, false), &notDurable)
		require.Equal(t, "fsync", notDurable.Setting)
	})
}
