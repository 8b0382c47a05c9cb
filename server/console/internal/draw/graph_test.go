package draw_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/console/internal/draw"
)

func checkout() []draw.Step {
	return []draw.Step{
		{Name: "stock.reserve", State: "completed", Text: "completed, 1 attempt", Undo: "completed", Href: "#stock"},
		{Name: "coupons.redeem", State: "completed", Undo: "pending"},
		{Name: "payments.charge", After: []string{"stock.reserve", "coupons.redeem"}, Pivot: true, State: "rejected", Text: "rejected, 402"},
		{Name: "shipping.create-shipment-with-label", After: []string{"payments.charge", "stock.reserve"}, State: "waiting"},
		{Name: "mail.confirm", After: []string{"payments.charge"}, State: "waiting"},
	}
}

func TestGraph_golden(t *testing.T) {
	t.Parallel()
	g := draw.NewGraph("Steps of checkout", checkout())
	require.LessOrEqual(t, g.Width, 360, "it fits a narrow screen")
	golden(t, "graph", g.SVG())
	golden(t, "graph_empty", draw.NewGraph("Nothing", nil).SVG())
	golden(t, "graph_one", draw.NewGraph("One", []draw.Step{{Name: "a.b", State: "running"}}).SVG())
}

func TestGraph_textIsEscaped(t *testing.T) {
	t.Parallel()
	steps := []draw.Step{{Name: planted, State: planted, Text: planted, Undo: planted, UndoText: planted, Href: planted}}
	elements := valid(t, draw.NewGraph(planted, steps).SVG())
	require.Equal(t, map[string]int{"svg": 1, "a": 1, "g": 1, "title": 1, "rect": 1, "text": 4}, elements)
}

func TestGraph_knownShapes(t *testing.T) {
	t.Parallel()
	chain, wide, dense := make([]draw.Step, 256), make([]draw.Step, 256), make([]draw.Step, 256)
	var names []string
	for i := range chain {
		name := fmt.Sprint("s", i)
		chain[i], wide[i], dense[i] = draw.Step{Name: name}, draw.Step{Name: name}, draw.Step{Name: name, After: names[:len(names):len(names)]}
		if i > 0 {
			chain[i].After = names[i-1:]
			wide[i].After = names[:1]
		}
		names = append(names, name)
	}
	for _, tt := range []struct {
		name        string
		steps       []draw.Step
		width, rows int // width: at most
	}{
		{"chain", chain, 170, 256},
		{"fan out", wide, 370, 129},
		{"each after all", dense, 10_000, 256},
		{"itself", []draw.Step{{Name: "a", After: []string{"a", "b"}}, {Name: "b", After: []string{"a"}}, {Name: "a"}}, 370, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := draw.NewGraph(tt.name, tt.steps)
			sound(t, g, tt.steps)
			require.LessOrEqual(t, g.Width, tt.width)
			require.Equal(t, tt.rows*(76+36)-36+4, g.Height)
		})
	}
}

// Two crossed pairs are drawn without a crossing.
func TestGraph_reducesCrossings(t *testing.T) {
	t.Parallel()
	g := draw.NewGraph("pairs", []draw.Step{{Name: "a"}, {Name: "b"}, {Name: "c", After: []string{"b"}}, {Name: "d", After: []string{"a"}}})
	require.Equal(t, g.Boxes[0].X, g.Boxes[3].X)
	require.Equal(t, g.Boxes[1].X, g.Boxes[2].X)
}

// sound fails if boxes overlap or leave the picture, if a step is not below its predecessors, or if an edge touches a box that is not its end.
func sound(t *testing.T, g draw.Graph, steps []draw.Step) {
	t.Helper()
	require.Len(t, g.Boxes, len(steps))
	for i, b := range g.Boxes {
		require.Equal(t, steps[i].Name, b.Name)
		require.True(t, b.X >= 0 && b.Y >= 0 && b.X+b.Width <= g.Width && b.Y+b.Height <= g.Height, "box %d leaves the picture", i)
		for j, other := range g.Boxes[:i] {
			apart := b.X+b.Width <= other.X || other.X+other.Width <= b.X || b.Y+b.Height <= other.Y || other.Y+other.Height <= b.Y
			require.True(t, apart, "boxes %d and %d overlap", i, j)
		}
	}
	rows := map[int][]draw.Box{}
	for _, b := range g.Boxes {
		rows[b.Y] = append(rows[b.Y], b)
	}
	for _, e := range g.Edges {
		require.Less(t, e.Y1, e.Y2)
		require.LessOrEqual(t, e.Y2, g.Height)
		for _, b := range rows[e.Y1] { // it passes this row
			require.True(t, e.X1 < b.X || e.X1 > b.X+b.Width, "an edge passes box %s", b.Name)
		}
	}
}

func FuzzGraph(f *testing.F) {
	f.Add([]byte{0, 1, 1, 2, 2, 0}, uint8(3))
	f.Add([]byte{0, 1, 0, 2, 0, 3, 0, 4, 4, 9, 3, 9}, uint8(10))
	f.Fuzz(func(t *testing.T, pairs []byte, n uint8) {
		steps := make([]draw.Step, n)
		for i := range steps {
			steps[i] = draw.Step{Name: fmt.Sprint(i), State: "completed"}
		}
		for i := 0; i+1 < len(pairs) && n > 0; i += 2 {
			s := &steps[pairs[i+1]%n]
			s.After = append(s.After, fmt.Sprint(pairs[i]%n))
		}
		g := draw.NewGraph("fuzz", steps)
		sound(t, g, steps)
		for i, s := range steps { // edges that close no cycle go down
			for _, name := range s.After {
				var before int
				_, _ = fmt.Sscan(name, &before)
				if before < i && forward(pairs, n) {
					require.Less(t, g.Boxes[before].Y, g.Boxes[i].Y)
				}
			}
		}
		require.Equal(t, g.SVG(), draw.NewGraph("fuzz", steps).SVG())
	})
}

// forward reports whether all pairs go from a lower to a higher number. Then the pairs form no cycle.
func forward(pairs []byte, n uint8) bool {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i]%n >= pairs[i+1]%n {
			return false
		}
	}
	return true
}
