package draw

import (
	"cmp"
	"slices"
)

// A layout finds a place for each step, by Sugiyama's method. The longest path decides the row. An edge that passes
// rows gets lanes. Then each row is ordered so that few edges cross.
type layout struct {
	after [][]int // by step, the steps that it waits for, without cycles
	row   []int   // by step
	rows  [][]int // the items of each row, from the left
	items []item
}

// An item is a step or a lane in a row.
type item struct {
	step     int // -1: a lane
	up, down []int
}

func newLayout(steps []Step) *layout {
	l := &layout{after: edges(steps)}
	l.layer()
	for range steps {
		l.items = append(l.items, item{step: len(l.items)})
	}
	l.rows = make([][]int, 1+slices.Max(l.row))
	for i, row := range l.row {
		l.rows[row] = append(l.rows[row], i)
	}
	l.route()
	return l
}

// edges returns for each step the steps that it waits for. An edge that would close a cycle is left out.
func edges(steps []Step) [][]int {
	index := map[string]int{}
	for i, s := range steps {
		if _, ok := index[s.Name]; !ok {
			index[s.Name] = i
		}
	}
	after := make([][]int, len(steps))
	const visiting, visited = 1, 2
	state := make([]int, len(steps))
	var visit func(i int)
	visit = func(i int) {
		state[i] = visiting
		for _, name := range steps[i].After {
			before, ok := index[name]
			if !ok || state[before] == visiting || slices.Contains(after[i], before) {
				continue
			}
			if state[before] == 0 {
				visit(before)
			}
			after[i] = append(after[i], before)
		}
		state[i] = visited
	}
	for i := range steps {
		if state[i] == 0 {
			visit(i)
		}
	}
	return after
}

// layer sets the row of each step: the first one below the steps that it waits for, if that has room for a box.
func (l *layout) layer() {
	depth := make([]int, len(l.after))
	var deep func(i int) int
	deep = func(i int) int {
		if depth[i] == 0 {
			depth[i] = 1
			for _, before := range l.after[i] {
				depth[i] = max(depth[i], deep(before)+1)
			}
		}
		return depth[i]
	}
	order := make([]int, len(l.after))
	for i := range order {
		order[i] = i
		deep(i)
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(depth[x], depth[y]) })
	l.row = make([]int, len(l.after))
	boxes := map[int]int{}
	for _, i := range order {
		row := 0
		for _, before := range l.after[i] {
			row = max(row, l.row[before]+1)
		}
		for boxes[row] >= perRow {
			row++
		}
		boxes[row]++
		l.row[i] = row
	}
	// Rows fill from the top, so that none is empty.
}

// route adds a lane for each row that an edge passes. Edges with a common end share their lanes.
func (l *layout) route() {
	outgoing, incoming := make([]int, len(l.after)), make([]int, len(l.after))
	for to, before := range l.after {
		for _, from := range before {
			if l.row[to]-l.row[from] > 1 {
				outgoing[from]++
				incoming[to]++
			}
		}
	}
	type bundle struct {
		end, row int
		incoming bool
	}
	lanes := map[bundle]int{}
	for to, before := range l.after {
		for _, from := range before {
			last := from
			for row := l.row[from] + 1; row < l.row[to]; row++ {
				key := bundle{from, row, false}
				if incoming[to] > outgoing[from] {
					key = bundle{to, row, true}
				}
				lane, ok := lanes[key]
				if !ok {
					lane = len(l.items)
					l.items = append(l.items, item{step: -1})
					l.rows[row] = append(l.rows[row], lane)
					lanes[key] = lane
				}
				l.connect(last, lane)
				last = lane
			}
			l.connect(last, to)
		}
	}
}

func (l *layout) connect(upper, lower int) {
	if !slices.Contains(l.items[upper].down, lower) {
		l.items[upper].down = append(l.items[upper].down, lower)
		l.items[lower].up = append(l.items[lower].up, upper)
	}
}

// sortRows orders each row, from the top, by the mean place of what leads to its items (barycenter): few edges then cross.
func (l *layout) sortRows() {
	places := make([]float64, len(l.items)) // in the row, from 0 to 1
	for _, row := range l.rows {
		setPlaces(places, row)
		mean := func(i int) float64 {
			above := l.items[i].up
			if len(above) == 0 {
				return places[i]
			}
			sum := 0.0
			for _, n := range above {
				sum += places[n]
			}
			return sum / float64(len(above))
		}
		slices.SortStableFunc(row, func(x, y int) int { return cmp.Compare(mean(x), mean(y)) })
		setPlaces(places, row)
	}
}

func setPlaces(places []float64, row []int) {
	for i, it := range row {
		places[it] = (float64(i) + 0.5) / float64(len(row))
	}
}

// place sets the boxes and edges of the graph. Each row is centered.
func (l *layout) place(g *Graph, steps []Step) {
	widths, widest := make([]int, len(l.rows)), 0
	for i, row := range l.rows {
		widths[i] = gapX * (len(row) - 1)
		for _, it := range row {
			widths[i] += l.width(it)
		}
		widest = max(widest, widths[i])
	}
	g.Width = widest + 2*margin
	g.Height = len(l.rows)*boxHeight + (len(l.rows)-1)*gapY + 2*margin
	g.Boxes = make([]Box, len(steps))
	center, top := make([]int, len(l.items)), make([]int, len(l.items))
	for i, row := range l.rows {
		x, y := margin+(widest-widths[i])/2, margin+i*(boxHeight+gapY)
		for _, it := range row {
			center[it], top[it] = x+l.width(it)/2, y
			if step := l.items[it].step; step >= 0 {
				g.Boxes[step] = Box{Step: steps[step], X: x, Y: y, Width: boxWidth, Height: boxHeight, Lines: nameLines(steps[step].Name)}
			}
			x += l.width(it) + gapX
		}
	}
	for _, row := range l.rows {
		for _, it := range row {
			if l.items[it].step < 0 {
				g.Edges = append(g.Edges, Edge{center[it], top[it], center[it], top[it] + boxHeight})
			}
			for _, d := range l.items[it].down {
				g.Edges = append(g.Edges, Edge{center[it], top[it] + boxHeight, center[d], top[d]})
			}
		}
	}
}

func (l *layout) width(it int) int {
	if l.items[it].step < 0 {
		return laneWidth
	}
	return boxWidth
}
