package console

import (
	"html/template"
	"strconv"
	"strings"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/console/internal/draw"
)

// A drawing is an SVG picture that package draw made. All text in it is escaped.
type drawing = template.HTML

// graphOf draws the steps of a saga. A box leads to the row of its step.
func graphOf(rec *journal.Record, rows []stepRow) drawing {
	steps := make([]draw.Step, len(rows))
	for i := range rows {
		s := &rows[i]
		steps[i] = draw.Step{
			Name: s.Plan.Name, After: s.Plan.After, Pivot: s.Plan.Pivot, State: s.State(), Text: entryText(s.Forward),
			Undo: s.UndoState(), Href: "#step-" + strconv.Itoa(i+1),
		}
		if s.Undo != nil {
			steps[i].UndoText = entryText(s.Undo)
		}
		if on := rec.StuckOn; on != nil && on.Step == s.Plan.Name {
			if on.Undo {
				steps[i].Undo = "stuck"
				steps[i].UndoText = "stuck: " + entryText(s.Undo)
			} else {
				steps[i].State, steps[i].Text = "stuck", "stuck: "+entryText(s.Forward)
			}
		}
	}
	return draw.NewGraph("Steps of "+rec.Name, steps).SVG()
}

// entryText is a call in a few words, which fit a box.
func entryText(e *journal.Entry) string {
	text := spaced(entryState(e))
	if e == nil {
		return text
	}
	if e.Nothing {
		text += ", nothing to undo"
	}
	if e.Attempts > 1 {
		text += ", " + plural(int64(e.Attempts), "attempt")
	}
	if e.Forced != "" {
		text += ", forced"
	}
	return text
}

// word is an outcome as a word of a class.
func word(outcome string) string {
	if outcome == "NotSent" {
		return "not_sent"
	}
	return strings.ToLower(outcome)
}
