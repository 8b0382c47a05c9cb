package draw

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// A Series is what [Line] and [Spark] draw. A value that is NaN or infinite is a gap.
type Series struct {
	Title  string
	Values []float64 // from left to right, at equal distances
	// Format returns the text of a value; nil shows at most one decimal place.
	Format func(float64) string
	// From and To are the labels of the left and the right end, such as "10 min ago" and "now".
	From, To string
}

const (
	lineWidth, lineHeight   = 320, 96
	sparkWidth, sparkHeight = 96, 24
)

// Line returns a line chart with the highest value, zero and the ends as labels. Its class is "draw line".
func Line(s Series) template.HTML {
	var w writer
	w.fixed("draw line", lineWidth, lineHeight, s.Title, s.describe(), false)
	_, high, _, known := s.facts()
	const left, top, bottom = 2, 16, lineHeight - 18
	w.empty("line", "class", "tick", "x1", num(left), "x2", num(lineWidth-left), "y1", num(bottom), "y2", num(bottom))
	w.empty("line", "class", "tick", "x1", num(left), "x2", num(lineWidth-left), "y1", num(top), "y2", num(top))
	if known {
		w.text("text", s.format(high), "class", "axis", "x", num(left), "y", num(top-4))
	} else {
		w.text("text", "no values yet", "class", "axis", "x", num(lineWidth/2), "y", num(lineHeight/2), "text-anchor", "middle")
	}
	w.text("text", s.From, "class", "axis", "x", num(left), "y", num(lineHeight-4))
	w.text("text", s.To, "class", "axis", "x", num(lineWidth-left), "y", num(lineHeight-4), "text-anchor", "end")
	s.path(&w, left, top, lineWidth-left, bottom)
	return w.done()
}

// Spark returns a small line without labels, for a place beside a number. Its class is "draw spark".
func Spark(s Series) template.HTML {
	var w writer
	w.fixed("draw spark", sparkWidth, sparkHeight, s.Title, s.describe(), false)
	s.path(&w, 2, 2, sparkWidth-2, sparkHeight-2)
	return w.done()
}

func (s Series) format(v float64) string {
	if s.Format != nil {
		return s.Format(v)
	}
	return decimal(v)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// facts returns the lowest, the highest and the last finite value; false if there is none.
func (s Series) facts() (low, high, last float64, known bool) {
	for _, v := range s.Values {
		if !finite(v) {
			continue
		}
		if !known {
			low, high = v, v
		}
		low, high, last, known = min(low, v), max(high, v), v, true
	}
	return low, high, last, known
}

func (s Series) describe() string {
	low, high, last, known := s.facts()
	if !known {
		return "no values yet"
	}
	return fmt.Sprintf("last %s, lowest %s, highest %s, %d values", s.format(last), s.format(low), s.format(high), len(s.Values))
}

// path draws the values into a rectangle. The lower edge is zero, or the lowest value if that is negative. A value
// between two gaps is a dot.
func (s Series) path(w *writer, left, top, right, bottom int) {
	low, high, _, known := s.facts()
	if !known {
		return
	}
	low, high = min(low, 0), max(high, 0)
	at := func(i int) string {
		x := float64(right)
		if n := len(s.Values) - 1; n > 0 {
			x = float64(left) + float64(right-left)*float64(i)/float64(n)
		}
		y := float64(bottom)
		if high > low {
			// Halves: the distance of two large numbers can be too large for a float64.
			y -= float64(bottom-top) * ((s.Values[i]/2 - low/2) / (high/2 - low/2))
		}
		return decimal(x) + " " + decimal(y)
	}
	var d strings.Builder
	for i, v := range s.Values {
		if !finite(v) {
			continue
		}
		if i == 0 || !finite(s.Values[i-1]) {
			d.WriteString("M" + at(i))
			if i+1 == len(s.Values) || !finite(s.Values[i+1]) {
				d.WriteString("h0") // with round ends this is a dot
			}
			continue
		}
		d.WriteString("L" + at(i))
	}
	w.empty("path", "class", "values", "fill", "none", "stroke-linecap", "round", "d", d.String())
}

// A Column is one line of [Columns].
type Column struct {
	Label string
	Value float64 // negative or not finite: 0
	Text  string  // of the value; empty: at most one decimal place
	State string  // a word for the class and the color
	Href  string  // empty: no link
}

const columnRow = 22

// Columns returns a bar chart with one horizontal bar per column, and its number. It is as wide as the place that it is in, and
// its class is "draw columns".
func Columns(title string, columns []Column) template.HTML {
	highest, links := 0.0, false
	var said []string
	columns = slices.Clone(columns)
	for i, c := range columns {
		if !finite(c.Value) || c.Value < 0 {
			columns[i].Value = 0
		}
		if c.Text == "" {
			columns[i].Text = decimal(columns[i].Value)
		}
		highest = max(highest, columns[i].Value)
		links = links || c.Href != ""
		said = append(said, c.Label+" "+columns[i].Text)
	}
	description := strings.Join(said, ", ")
	if len(columns) == 0 {
		description = "no values yet"
	}
	var w writer
	w.fluid("draw columns", max(columnRow*len(columns), columnRow), title, description, links)
	if len(columns) == 0 {
		w.text("text", description, "class", "axis", "x", "0", "y", "15")
	}
	for i, c := range columns {
		c.write(&w, i*columnRow, highest)
	}
	return w.done()
}

// write draws the label on the left third, the bar in the middle, and the number at the right end.
func (c Column) write(w *writer, y int, highest float64) {
	if c.Href != "" {
		w.open("a", "href", c.Href)
	}
	w.open("g", "class", "column "+class("state-", c.State))
	w.text("text", short(c.Label, 16), "class", "label", "x", "0", "y", num(y+15))
	width := 0.0
	if highest > 0 {
		width = 0.4 * (c.Value / highest)
	}
	if c.Value > 0 {
		width = max(width, leastWide)
	}
	w.empty("rect", "x", "38%", "y", num(y+4), "width", percent(width), "height", "14", "rx", "2")
	w.text("text", short(c.Text, 10), "class", "number", "x", "100%", "y", num(y+15), "text-anchor", "end")
	w.close("g")
	if c.Href != "" {
		w.close("a")
	}
}
