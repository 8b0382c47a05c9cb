package record

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const firstRun = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A trace context changes nothing that is sent, and an envelope at the limits still has room for it.
func TestWithTrace(t *testing.T) {
	t.Parallel()
	full := make([]Line, maxHeaderLines)
	for i := range full {
		full[i] = Line{"Link", strings.Repeat("x", maxEnvelopeBytes/maxHeaderLines-len("Link"))}
	}
	for _, lines := range [][]Line{{}, {{"Content-Type", "text/plain"}, {"Link", "<a>"}}, full} {
		plain, ok := EncodeEnvelope(lines, []byte("body"))
		require.True(t, ok)
		require.Empty(t, TraceOf(plain))
		traced := WithTrace(plain, firstRun)
		require.Equal(t, firstRun, TraceOf(traced))
		got, body, err := DecodeEnvelope(traced)
		require.NoError(t, err)
		require.Equal(t, lines, got)
		require.Equal(t, "body", string(body))
		require.Equal(t, traced, WithTrace(traced, "00-other"), "the first run's stays")
	}
}

// What is no trace context, or no envelope, stays as it is.
func TestWithTrace_refused(t *testing.T) {
	t.Parallel()
	envelope, ok := EncodeEnvelope(nil, []byte("body"))
	require.True(t, ok)
	for _, trace := range []string{"", "a b", "a\n", "ü", strings.Repeat("x", maxTraceBytes+1)} {
		require.Equal(t, envelope, WithTrace(envelope, trace), "%q", trace)
	}
	for _, other := range [][]byte{nil, {}, {envelopeVersion}, {9, 9}, Reference("order 7")} {
		require.Equal(t, other, WithTrace(other, firstRun), "%q", other)
		require.Empty(t, TraceOf(other), "%q", other)
	}
}
