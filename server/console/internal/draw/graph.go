package draw

import (
	"cmp"
	"fmt"
	"html/template"
)

// A Step is one box of a [Graph].
type Step struct {
	Name  string
	After []string // The names of the steps that it waits for. An unknown name does not count.
	Pivot bool     // The saga does not go back past it.
	// State is a word such as "completed", for the class and the color. Text is the line that shows it, such as
	// "completed, 2 attempts". The empty Text shows State.
	State, Text string
	// Undo and UndoText are the same of the step's undo. Without an Undo the line is left out.
	Undo, UndoText string
	Href           string // of the step; empty: no link
}

// A Graph is the picture of a saga's steps. Each step is below the steps that it waits for. The zero Graph is empty.
type Graph struct {
	Title         string
	Width, Height int // in pixels
	Boxes         []Box
	Edges         []Edge
}

// A Box is a placed [Step]. X and Y are its upper left corner.
type Box struct {
	Step
	X, Y, Width, Height int
	Lines               []string // the name, in at most two lines
}

// An Edge is a line from one box, or place between boxes, to the next row.
type Edge struct{ X1, Y1, X2, Y2 int }

// The sizes of a graph. Two boxes side by side fit a screen of 375 pixels.
const (
	boxWidth   = 160
	boxHeight  = 76
	laneWidth  = 10 // of an edge that passes a row
	gapX, gapY = 12, 36
	margin     = 2
	nameRunes  = 21  // that fit a line of a box
	perRow     = 2   // boxes
	mostScaled = 480 // width of the widest picture that is still readable on a phone
)

// NewGraph places the steps, which are usually in the order of the plan. A row has at most two boxes. It accepts any steps: of two
// steps with one name the first is meant, and an edge that would close a cycle is left out.
func NewGraph(title string, steps []Step) Graph {
	g := Graph{Title: title}
	if len(steps) == 0 {
		return g
	}
	l := newLayout(steps)
	l.sortRows()
	l.place(&g, steps)
	return g
}

// SVG returns the picture. A picture that would be too small to read on a phone has the class "wide": it should scroll
// instead. Each box has the class "step", and one of its state, such as "state-completed"; "pivot" is the
// class of a pivot.
func (g Graph) SVG() template.HTML {
	links := false
	for _, b := range g.Boxes {
		links = links || b.Href != ""
	}
	var w writer
	classes := "draw graph"
	if g.Width > mostScaled {
		classes += " wide"
	}
	w.beginPicture(classes, num(g.Width), num(g.Height), "0 0 "+num(g.Width)+" "+num(g.Height), fmt.Sprintf("%s: %d steps", g.Title, len(g.Boxes)), links)
	for _, e := range g.Edges {
		if e.X1 == e.X2 {
			w.writeEmpty("path", "class", "edge", "fill", "none", "d", fmt.Sprintf("M%d %dV%d", e.X1, e.Y1, e.Y2))
			continue
		}
		mid := (e.Y1 + e.Y2) / 2
		w.writeEmpty("path", "class", "edge", "fill", "none", "d", fmt.Sprintf("M%d %dC%d %d %d %d %d %d", e.X1, e.Y1, e.X1, mid, e.X2, mid, e.X2, e.Y2))
	}
	for _, b := range g.Boxes {
		b.write(&w)
	}
	return w.done()
}

func (b Box) write(w *writer) {
	classes := "step " + class("state-", b.State)
	if b.Pivot {
		classes += " pivot"
	}
	if b.Href != "" {
		w.open("a", "href", b.Href)
	}
	w.open("g", "class", classes)
	w.text("title", b.alternative())
	w.writeEmpty("rect", "x", num(b.X), "y", num(b.Y), "width", num(b.Width), "height", num(b.Height), "rx", "6")
	y := b.Y + 17
	for _, line := range b.Lines {
		w.text("text", line, "class", "name", "x", num(b.X+8), "y", num(y))
		y += 14
	}
	text := cmp.Or(b.Text, b.State)
	if b.Pivot {
		text += " · pivot"
	}
	w.text("text", short(text, nameRunes+1), "class", "state", "x", num(b.X+8), "y", num(b.Y+50))
	if b.Undo != "" {
		w.text("text", short("undo "+cmp.Or(b.UndoText, b.Undo), nameRunes+1), "class", "undo "+class("undo-", b.Undo), "x", num(b.X+8), "y", num(b.Y+66))
	}
	w.close("g")
	if b.Href != "" {
		w.close("a")
	}
}

// alternative is the text of a step for people who do not see the picture.
func (s Step) alternative() string {
	text := s.Name + ": " + cmp.Or(s.Text, s.State)
	if s.Undo != "" {
		text += ", undo " + cmp.Or(s.UndoText, s.Undo)
	}
	if s.Pivot {
		text += ", pivot"
	}
	return text
}

// nameLines returns a name in at most two lines. It breaks after the last dot that fits the first line, else anywhere.
func nameLines(name string) []string {
	runes := []rune(name)
	if len(runes) <= nameRunes {
		return []string{name}
	}
	at := nameRunes
	for i := nameRunes - 1; i > 0; i-- {
		if runes[i] == '.' {
			at = i + 1
			break
		}
	}
	return []string{string(runes[:at]), short(string(runes[at:]), nameRunes)}
}
