package main

import (
	"fmt"
	"strconv"
	"strings"
)

// A figure is one line of the report.
type figure struct {
	Name     string    `json:"name"`
	Measures []measure `json:"measures"`
	Verdict  verdict   `json:"verdict,omitempty"`
	// Prototype is what the design was measured with before it was built.
	Prototype string `json:"prototype,omitempty"`
}

// at returns the figure with an addition to its name.
func (f figure) at(where string) figure {
	f.Name += ", " + where
	return f
}

// A verdict says whether a figure meets its goals. It is "" if the figure has no goals or is not
// judged.
type verdict string

const (
	good     verdict = "ok"
	tooShort verdict = "SHORT"
)

// A measure is one number. Low and High are its range over the rounds; both
// zero where there were none.
type measure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	Low   float64 `json:"low,omitempty"`
	High  float64 `json:"high,omitempty"`
	Goal  *goal   `json:"goal,omitempty"` // nil: measured to compare with
}

// A goal is a bound of a measure.
type goal struct {
	Sign  string  `json:"sign"` // ≤ or ≥
	Limit float64 `json:"limit"`
}

func atMost(limit float64) *goal  { return &goal{"≤", limit} }
func atLeast(limit float64) *goal { return &goal{"≥", limit} }

func (g *goal) met(value float64) bool {
	if g.Sign == "≤" {
		return value <= g.Limit
	}
	return value >= g.Limit
}

// judge sets the figure's verdict by the goals of its measures.
func (f *figure) judge() {
	for _, m := range f.Measures {
		switch {
		case m.Goal == nil:
		case !m.Goal.met(m.Value):
			f.Verdict = tooShort
			return
		default:
			f.Verdict = good
		}
	}
}

func (f *figure) values() string {
	var all []string
	for _, m := range f.Measures {
		text := m.Name + " " + quantity(m.Value, m.Unit)
		if m.Low != 0 || m.High != 0 {
			text += fmt.Sprintf(" (%s–%s)", decimal(m.Low), decimal(m.High))
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func (f *figure) goals() string {
	var all []string
	for _, m := range f.Measures {
		if m.Goal != nil {
			all = append(all, m.Name+" "+m.Goal.Sign+" "+quantity(m.Goal.Limit, m.Unit))
		}
	}
	return strings.Join(all, "; ")
}

func quantity(v float64, unit string) string {
	switch unit {
	case "", "x":
		return decimal(v) + unit
	default:
		return decimal(v) + " " + unit
	}
}

// decimal returns v with as many digits as say something.
func decimal(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	digits := 2
	if v < 0.1 {
		digits = 4
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
