package draw

import (
	"fmt"
	"html/template"
	"time"
)

// A Bar is one line of a [Timeline].
type Bar struct {
	Label string // Such as the service and the operation.
	Note  string // Behind the label, such as the duration; may be empty.
	Depth int    // The depth of the line in the tree; 0 is the top.
	State string // A word for the class and the color.
	// Start is zero for a line without a bar. The zero End is a point at Start.
	Start, End time.Time
	// Vague says that the bar ended at End at the latest, or goes on.
	Vague bool
	Href  string // empty: no link
}

// A Timeline is the picture of bars on one time axis. It is as wide as the place that it is in.
type Timeline struct {
	Title string
	Bars  []Bar
}

const (
	barRow    = 34 // height of a bar with its label
	axisRow   = 20
	leastWide = 0.006 // of the picture: the width of the shortest bar
)

// SVG returns the picture. A bar has the class "bar" and one of its state, and "vague" if it is that.
func (t Timeline) SVG() template.HTML {
	from, to := t.span()
	links := false
	for _, b := range t.Bars {
		links = links || b.Href != ""
	}
	var w writer
	w.beginPicture("draw timeline", "100%", num(axisRow+barRow*len(t.Bars)), "",
		fmt.Sprintf("%s: %d lines in %s", t.Title, len(t.Bars), round(to.Sub(from))), links)
	if !from.IsZero() {
		t.axis(&w, to.Sub(from))
	}
	for i, b := range t.Bars {
		b.write(&w, axisRow+i*barRow, from, to)
	}
	return w.done()
}

func (t Timeline) span() (from, to time.Time) {
	for _, b := range t.Bars {
		if b.Start.IsZero() {
			continue
		}
		if from.IsZero() || b.Start.Before(from) {
			from = b.Start
		}
		for _, at := range [...]time.Time{b.Start, b.End} {
			if at.After(to) {
				to = at
			}
		}
	}
	return from, to
}

// axis draws a line at the beginning, in the middle and at the end, with the time since the beginning.
func (t Timeline) axis(w *writer, span time.Duration) {
	bottom := num(axisRow + barRow*len(t.Bars))
	for _, tick := range [...]struct {
		at     float64
		anchor string
	}{{0, "start"}, {0.5, "middle"}, {1, "end"}} {
		if span == 0 && tick.at > 0 {
			break
		}
		w.writeEmpty("line", "class", "tick", "x1", percent(tick.at), "x2", percent(tick.at), "y1", num(axisRow-4), "y2", bottom)
		w.text("text", round(time.Duration(tick.at*float64(span))), "class", "axis", "x", percent(tick.at), "y", "12", "text-anchor", tick.anchor)
	}
}

func (b Bar) write(w *writer, y int, from, to time.Time) {
	if b.Href != "" {
		w.open("a", "href", b.Href)
	}
	text := b.Label
	if b.Note != "" {
		text += " · " + b.Note
	}
	classes := "bar " + class("state-", b.State)
	if b.Vague {
		classes += " vague"
	}
	w.open("g", "class", classes)
	w.text("title", text+" · "+b.State)
	indent := 8 * min(max(b.Depth, 0), 10)
	w.text("text", short(text, 48-indent/8), "class", "label", "x", num(indent), "y", num(y+13))
	if !b.Start.IsZero() {
		x, width := b.place(from, to)
		w.writeEmpty("rect", "x", percent(x), "y", num(y+18), "width", percent(width), "height", "10", "rx", "2")
	}
	w.close("g")
	if b.Href != "" {
		w.close("a")
	}
}

// place returns where the bar begins and how wide it is, as parts of the picture.
func (b Bar) place(from, to time.Time) (x, width float64) {
	span := float64(to.Sub(from))
	if span <= 0 {
		return 0, leastWide
	}
	x = float64(b.Start.Sub(from)) / span
	if b.End.After(b.Start) {
		width = float64(b.End.Sub(b.Start)) / span
	}
	width = max(width, leastWide)
	return min(x, 1-width), width
}

// round returns a duration with about three digits.
func round(d time.Duration) string {
	for _, unit := range [...]time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}
