package pgtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAvailableMemory(t *testing.T) {
	t.Parallel()
	require.Greater(t, availableMemory(), uint64(16<<20), "bytes, of a machine that runs this")
}
