package pgtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAvailableMemory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		meminfo string
		want    uint64
	}{
		{"MemTotal:       24683668 kB\nMemFree:         1000000 kB\nMemAvailable:   20971520 kB\nBuffers: 1 kB\n", 20 << 30},
		{"MemTotal:       24683668 kB\n", 0}, // before Linux 3.14
		{"MemAvailable:   much\n", 0},
		{"", 0},
	} {
		require.Equal(t, tt.want, availableIn(strings.NewReader(tt.meminfo)), tt.meminfo)
	}
	require.Positive(t, availableMemory(), "of the machine that runs this")
}
