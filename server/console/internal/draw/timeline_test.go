package draw_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/console/internal/draw"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestTimeline_golden(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	golden(t, "timeline", draw.Timeline{Title: "One request", Bars: []draw.Bar{
		{Label: "orders checkout", Note: "1.23s", State: "completed", Start: at(0), End: at(1234), Href: "/sagas/1"},
		{Label: "stock", Depth: 1, State: "completed", Start: at(10), End: at(200), Vague: true},
		{Label: "bank POST /charges", Depth: 1, State: "unknown", Start: at(300)},
		{Label: "a hop that this console is not given", Depth: 2, State: "missing"},
	}}.SVG())
	golden(t, "timeline_empty", draw.Timeline{Title: "Nothing"}.SVG())
	golden(t, "timeline_one", draw.Timeline{Title: "One", Bars: []draw.Bar{{Label: "a", Start: at(0)}}}.SVG())
}

func TestTimeline_textIsEscaped(t *testing.T) {
	t.Parallel()
	elements := valid(t, draw.Timeline{Title: planted, Bars: []draw.Bar{{Label: planted, Note: planted, State: planted, Href: planted, Start: epoch}}}.SVG())
	require.Equal(t, map[string]int{"svg": 1, "a": 1, "g": 1, "title": 1, "rect": 1, "text": 2, "line": 1}, elements)
}

func FuzzTimeline(f *testing.F) {
	f.Add(int64(0), int64(0), int64(5), int64(-5), 1)
	f.Add(int64(1)<<62, int64(-1)<<62, int64(0), int64(1), -7)
	f.Fuzz(func(t *testing.T, a, b, c, d int64, depth int) {
		at := func(n int64) time.Time { return epoch.Add(time.Duration(n)) }
		valid(t, draw.Timeline{Title: "fuzz", Bars: []draw.Bar{
			{Label: "x", Start: at(a), End: at(b), Depth: depth}, {Label: "y", Start: at(c), End: at(d)}, {Label: "z", End: at(d)},
		}}.SVG())
	})
}
