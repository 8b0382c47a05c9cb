// Package benchkit is the report that the benchmark modules of retry, saga and pgstore share:
// figures with goals, the machine that they were measured on, and their two forms, Markdown
// and JSON. It measures nothing itself.
package benchkit

import (
	"fmt"
	"strconv"
	"strings"
)

// A Figure is one line of a report.
type Figure struct {
	Name     string    `json:"name"`
	Measures []Measure `json:"measures"`
	Verdict  Verdict   `json:"verdict,omitempty"`
	// Prototype is the value of the design before it was built; "" if it had none.
	Prototype string `json:"prototype,omitempty"`
}

// At returns the figure with an addition to its name.
func (f Figure) At(where string) Figure {
	f.Name += ", " + where
	return f
}

// A Verdict says whether a figure meets its goals. It is "" if the figure has no goals or is not
// judged.
type Verdict string

const (
	Good     Verdict = "ok"
	TooShort Verdict = "SHORT"
)

// A Measure is one number. Low and High are its range over the rounds. Both are zero if it has
// no range.
type Measure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	Low   float64 `json:"low,omitempty"`
	High  float64 `json:"high,omitempty"`
	Goal  *Goal   `json:"goal,omitempty"` // nil: measured to compare with
}

// A Goal is a bound of a measure.
type Goal struct {
	Sign  string  `json:"sign"` // ≤, ≥ or <
	Limit float64 `json:"limit"`
}

func AtMost(limit float64) *Goal  { return &Goal{"≤", limit} }
func AtLeast(limit float64) *Goal { return &Goal{"≥", limit} }
func Below(limit float64) *Goal   { return &Goal{"<", limit} }

// Met reports whether the value is within the goal.
func (g *Goal) Met(value float64) bool {
	switch g.Sign {
	case "≤":
		return value <= g.Limit
	case "≥":
		return value >= g.Limit
	default:
		return value < g.Limit
	}
}

// Judge sets the figure's verdict by the goals of its measures.
func (f *Figure) Judge() {
	for _, m := range f.Measures {
		switch {
		case m.Goal == nil:
		case !m.Goal.Met(m.Value):
			f.Verdict = TooShort
			return
		default:
			f.Verdict = Good
		}
	}
}

// Values returns the measures as a report shows them.
func (f *Figure) Values() string {
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

func (f *Figure) goals() string {
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

// decimal returns v with its significant digits.
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
