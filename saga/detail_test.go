package saga_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// Whatever text an author's error has, what is stored of it is valid and short, and the
// longest part of it that is.
func TestDetail_isCut(t *testing.T) {
	t.Parallel()
	const (
		evidence = "the function says so: "
		room     = journal.MaxDetailBytes - len(evidence)
	)
	tests := []struct {
		name, text, want string
	}{
		{"short", "näh", "näh"},
		{"as long as may be", strings.Repeat("x", room), strings.Repeat("x", room)},
		{"a byte too long", strings.Repeat("x", room+1), strings.Repeat("x", room)},
		{"a rune across the limit", strings.Repeat("x", room-1) + "ä", strings.Repeat("x", room-1)},
		{"a rune up to the limit", strings.Repeat("x", room-2) + "äx", strings.Repeat("x", room-2) + "ä"},
		{"four bytes across the limit", strings.Repeat("x", room-1) + "\U0001F600", strings.Repeat("x", room-1)},
		{"no text", strings.Repeat("\xff.", room/2), strings.Repeat("\uFFFD.", room/4)},
		{"no text at the end", strings.Repeat("x", room-1) + "\xff", strings.Repeat("x", room-1)},
		{"half a rune at the end", "ab\xc3", "ab\uFFFD"},
	}
	for _, tt := range tests {
		inBubble(t, func(s *stage) {
			d := saga.MustDefine("bad", 1, func(b *saga.Builder[order, nothing]) {
				saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
					return nothing{}, saga.Rejected(errors.New(tt.text))
				})
			})
			_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrCompensated)
			r := s.read("k")
			require.Equal(s, evidence+tt.want, r.Cause.Detail, tt.name)
			require.Equal(s, evidence+tt.want, r.Entries[0].Detail, tt.name)
		})
	}
}
