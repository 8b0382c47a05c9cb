package record

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzEnvelope(f *testing.F) {
	good, _ := EncodeEnvelope([]Line{{"Link", "<a>, <b>"}, {"Link", ""}}, []byte("body"))
	f.Add(good)
	f.Add(WithTrace(good, "00-1-2-01"))
	f.Add(WithTrace(WithTrace(good, "00-1-2-01")[:len(good)], "00-1-2-01"))
	f.Add([]byte(nil))
	f.Add([]byte{envelopeVersion})
	f.Add(append(slices.Clone(good), 0))
	f.Add([]byte{envelopeVersion, 1, 4, 'L', 'i', 'n', 'k', 3, 'a', '\r', '\n', 0})
	f.Add([]byte{envelopeVersion, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{envelopeVersion, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		lines, body, err := DecodeEnvelope(b)
		if err != nil {
			return
		}
		for _, l := range lines {
			if strings.ContainsAny(l.Name+l.Value, "\r\n\x00") {
				t.Fatalf("decoded a line that splits an answer: %q", l)
			}
		}
		again, ok := EncodeEnvelope(lines, body)
		if !ok {
			t.Fatalf("decoded what cannot be encoded: %q", b)
		}
		lines2, body2, err := DecodeEnvelope(again)
		if err != nil || !slices.Equal(lines, lines2) || !bytes.Equal(body, body2) {
			t.Fatalf("round trip of %q: %v", b, err)
		}
	})
}

// Any single damaged length or missing byte is noticed.
func TestEnvelope_truncated(t *testing.T) {
	t.Parallel()
	b, ok := EncodeEnvelope([]Line{{"Content-Type", "text/plain"}}, []byte("body"))
	require.True(t, ok)
	for i := range b {
		_, _, err := DecodeEnvelope(b[:i])
		require.ErrorIs(t, err, ErrEnvelope, "first %d bytes", i)
	}
	_, _, err := DecodeEnvelope(append(b, 0))
	require.ErrorIs(t, err, ErrEnvelope, "something behind it")
}
