package pgjournal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every input survives, with and without a trace context. An input without one is stored as it is.
func TestTraced(t *testing.T) {
	t.Parallel()
	for _, input := range [][]byte{{}, []byte(`{"a":1}`), {formTraced}, {formTraced, 3, 'x'}, {formSealed, 1}} {
		for _, trace := range []string{"", "00-1-2-01"} {
			got, again, err := splitTrace(addTrace(trace, input))
			require.NoError(t, err)
			require.Equal(t, trace, got)
			require.Equal(t, input, again)
		}
	}
	require.Equal(t, []byte("{}"), addTrace("", []byte("{}")))
	for _, cut := range [][]byte{{formTraced}, {formTraced, 1}, {formTraced, 3, 'a', 'b'}} {
		_, _, err := splitTrace(cut)
		require.ErrorIs(t, err, errTrace)
	}
}
