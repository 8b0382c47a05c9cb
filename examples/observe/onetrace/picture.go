package main

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

// colors are those of the processes, in the order in which they appear.
var colors = []string{"#4c78a8", "#b07aa1", "#59a14f", "#e8833a", "#d4a017", "#3f9c9c"}

const (
	width, left, right = 1200, 350, 30 // left: the names
	row, top           = 20, 56
)

// processes are the names of the processes, by their first spans.
func (s *story) processes() []string {
	var names []string
	for _, r := range s.rows() {
		if !slices.Contains(names, r.Process) {
			names = append(names, r.Process)
		}
	}
	return names
}

// A line is a row of the picture.
type line struct {
	span

	depth int
}

// rows are the spans as a tree, each below its parent. A parent that nobody reported is a row too: it was lost with its
// process.
func (s *story) rows() []line {
	known := make(map[string]span)
	for _, span := range s.spans {
		known[span.ID] = span
	}
	for _, child := range s.spans {
		if _, ok := known[child.Parent]; child.Parent == "" || ok {
			continue
		}
		known[child.Parent] = span{
			ID: child.Parent, Trace: child.Trace, Process: child.Process, Name: lostName(child), Start: child.Start, End: s.killed, lost: true,
		}
	}
	s.adopt(known)
	children := make(map[string][]span)
	for _, span := range known {
		children[span.Parent] = append(children[span.Parent], span)
	}
	var rows []line
	var add func(parent string, depth int)
	add = func(parent string, depth int) {
		slices.SortFunc(children[parent], func(a, b span) int { return a.Start.Compare(b.Start) })
		for _, span := range children[parent] {
			rows = append(rows, line{span, depth})
			add(span.ID, depth+1)
		}
	}
	add("", 0)
	return rows
}

// lostName is the name of a span that was lost, by a child of it.
func lostName(child span) string {
	what := "attempt payment charge"
	switch {
	case strings.HasPrefix(child.Name, "saga "):
		what = "run POST /orders"
	case strings.HasPrefix(child.Name, "step "):
		what = "saga checkout"
	}
	return what + " · not reported"
}

// adopt completes the lost spans. Nobody reported the parent of a lost span: the order of the shop's own calls tells it.
func (s *story) adopt(known map[string]span) {
	first := make(map[string]span) // of the lost chain, from the client down, by the beginning of the name
	for _, one := range known {
		for _, name := range []string{"attempt shop", "run POST /orders ·", "saga checkout ·"} {
			if have, ok := first[name]; strings.HasPrefix(one.Name, name) && (!ok || one.Start.Before(have.Start)) {
				first[name] = one
			}
		}
	}
	attempt := first["attempt shop"]
	for id, lost := range known {
		if !lost.lost {
			continue
		}
		lost.Process = "shop-1"
		switch {
		case strings.HasPrefix(lost.Name, "run "):
			lost.Parent, lost.Start = attempt.ID, attempt.Start
		case strings.HasPrefix(lost.Name, "saga "):
			lost.Parent = first["run POST /orders ·"].ID
		default:
			lost.Parent = first["saga checkout ·"].ID
		}
		known[id] = lost
	}
}

// picture draws the trace as SVG.
func (s *story) picture() []byte {
	rows, names := s.rows(), s.processes()
	begin, end := rows[0].Start, rows[0].End
	for _, r := range rows {
		if r.End.After(end) {
			end = r.End
		}
	}
	x := func(t time.Time) float64 {
		return left + float64(t.Sub(begin))/float64(end.Sub(begin))*(width-left-right)
	}
	height := top + row*len(rows) + 40
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	fmt.Fprintf(&b, `<text x="10" y="18" font-size="14">One checkout over four services: trace %s</text>`+"\n", rows[0].Trace)
	for i, name := range names {
		fmt.Fprintf(&b, `<rect x="%d" y="28" width="12" height="12" fill="%s"/><text x="%d" y="38">%s</text>`+"\n",
			10+i*110, colors[i%len(colors)], 26+i*110, html.EscapeString(name))
	}
	s.drawAxis(&b, x, end.Sub(begin), begin, height)
	at := make(map[string]int)
	for i, r := range rows {
		at[r.ID] = top + row*i
		color := colors[slices.Index(names, r.Process)%len(colors)]
		drawRow(&b, r, color, at[r.ID], x)
	}
	for _, r := range rows {
		if y, ok := at[r.Link]; ok && r.Link != "" {
			drawLink(&b, x(r.Start), at[r.ID], y)
		}
	}
	fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#c00" stroke-width="1.5"/>`+
		`<text x="%.1f" y="%d" fill="#c00">SIGKILL shop-1</text>`+"\n", x(s.killed), x(s.killed), top-6, height-30, x(s.killed)+4, height-20)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// drawAxis draws the times.
func (*story) drawAxis(b *bytes.Buffer, x func(time.Time) float64, long time.Duration, begin time.Time, height int) {
	for t := time.Duration(0); t <= long; t += 500 * time.Millisecond {
		at := x(begin.Add(t))
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/><text x="%.1f" y="%d" fill="#888" font-size="10">%.1f s</text>`+"\n",
			at, at, top-4, height-34, at+2, height-6, t.Seconds())
	}
}

// drawRow draws a span: its name on the left, and its time.
func drawRow(b *bytes.Buffer, r line, color string, y int, x func(time.Time) float64) {
	text := r.Name
	if r.Outcome != "" {
		text += " · " + r.Outcome
	}
	from := x(r.Start)
	long := max(x(r.End)-from, 2)
	style := fmt.Sprintf(`fill="%s"`, color)
	switch {
	case r.lost:
		style = fmt.Sprintf(`fill="none" stroke="%s" stroke-dasharray="4 3"`, color)
	case r.Error != "":
		style += ` stroke="#c00" stroke-width="2"`
	}
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text><rect x="%.1f" y="%d" width="%.1f" height="12" rx="2" %s/>`+"\n",
		10+10*r.depth, y+12, html.EscapeString(text), from, y+2, long, style)
}

// drawLink draws the link of a replay to the first run.
func drawLink(b *bytes.Buffer, x float64, from, to int) {
	fmt.Fprintf(b, `<path d="M%.1f %d C%.1f %d %.1f %d %.1f %d" fill="none" stroke="#333" stroke-dasharray="2 2"/>`+
		`<text x="%.1f" y="%d" font-size="10">link to the first run</text>`+"\n",
		x, from+8, x-60, from, x-60, to, x, to+8, x-110, (from+to)/2+10)
}
