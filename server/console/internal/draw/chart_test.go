package draw_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/console/internal/draw"
)

func TestCharts_golden(t *testing.T) {
	t.Parallel()
	rates := draw.Series{
		Title: "Hits", Values: []float64{0, 2, 4.25, 4, math.NaN(), 7, math.NaN(), 3, 8}, From: "10 min ago", To: "now",
		Format: func(v float64) string { return fmt.Sprintf("%.1f/s", v) },
	}
	golden(t, "line", draw.Line(rates))
	golden(t, "spark", draw.Spark(rates))
	golden(t, "line_empty", draw.Line(draw.Series{Title: "Hits", Values: []float64{math.NaN()}}))
	golden(t, "line_one", draw.Line(draw.Series{Title: "Hits", Values: []float64{3}}))
	golden(t, "columns", draw.Columns("By state", []draw.Column{
		{Label: "completed", Value: 1200, Text: "≈ 1,200", State: "completed", Href: "keys?state=completed"},
		{Label: "unknown", Value: 3, State: "unknown"}, {Label: "released", State: "released"}, {Label: "odd", Value: math.Inf(-1)},
	}))
	golden(t, "columns_empty", draw.Columns("By state", nil))
}

func TestCharts_textIsEscaped(t *testing.T) {
	t.Parallel()
	hostile := func(float64) string { return planted }
	valid(t, draw.Line(draw.Series{Title: planted, Values: []float64{1}, From: planted, To: planted, Format: hostile}))
	elements := valid(t, draw.Columns(planted, []draw.Column{{Label: planted, Text: planted, State: planted, Href: planted}}))
	require.Equal(t, map[string]int{"svg": 1, "a": 1, "g": 1, "rect": 1, "text": 2}, elements)
}

// The caller's columns stay as they are.
func TestColumns_changesNothing(t *testing.T) {
	t.Parallel()
	columns := []draw.Column{{Label: "a", Value: math.NaN()}}
	draw.Columns("x", columns)
	require.True(t, math.IsNaN(columns[0].Value))
	require.Empty(t, columns[0].Text)
}

func FuzzCharts(f *testing.F) {
	f.Add(0.0, 0.0, 0.0)
	f.Add(1.0, -1.0, 0.5)
	f.Add(math.MaxFloat64, -math.MaxFloat64, math.NaN())
	f.Add(math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1))
	f.Fuzz(func(t *testing.T, a, b, c float64) {
		s := draw.Series{Title: "fuzz", Values: []float64{a, b, c, a}}
		valid(t, draw.Line(s))
		valid(t, draw.Spark(s))
		valid(t, draw.Columns("fuzz", []draw.Column{{Value: a}, {Value: b}, {Value: c}}))
	})
}
