package monitor_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/monitor"
)

func TestNames(t *testing.T) {
	t.Parallel()
	var names monitor.Names
	for _, tt := range []struct{ name, want string }{{"", "1"}, {"orders", "orders"}, {"Tee für zwei", "Tee für zwei"}, {"", "2"}} {
		got, err := names.Choose(tt.name)
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
	}
	for _, bad := range []string{"a\nb", "a\x00", "\xff", strings.Repeat("x", monitor.MaxNameBytes+1)} {
		_, err := names.Choose(bad)
		require.Error(t, err, "%q", bad)
	}
}
