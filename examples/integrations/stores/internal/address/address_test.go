package address_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/integrations/stores/internal/address"
)

func TestOpen_badAddress(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "mysql://x", "nats://127.0.0.1:1", "::", "redis://127.0.0.1:1", "redis://127.0.0.1:1?replicas=x", "redis://127.0.0.1:1?replicas=-1"} {
		_, err := address.Open(t.Context(), bad)
		require.Error(t, err, bad)
	}
}
