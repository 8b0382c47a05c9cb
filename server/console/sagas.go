package console

import (
	"context"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// sagasData is a list of sagas of one journal.
type sagasData struct {
	Source      string
	Sources     []string
	Filter      sagaFilter
	Definitions []string
	Rows        []sagaRow
	First       bool
	FirstQuery  template.URL
	Next        string
	Failure     string
	Verbs       []verbChoice
	All         string
}

// A sagaRow is one saga in a list or on its page.
type sagaRow struct {
	journal.Record
	Source string
}

// State is the name of the status.
func (s *sagaRow) State() string { return s.Status.String() }

// Why says why the saga is stuck, failed or deferred; "" otherwise.
func (s *sagaRow) Why() string {
	switch {
	case s.StuckOn != nil:
		return failureText(s.StuckOn)
	case s.Cause != nil:
		return failureText(s.Cause)
	case s.Deferred != nil:
		return "deferred: " + failureText(s.Deferred)
	case s.Corrupt != nil:
		return clip(s.Corrupt.Error(), 200)
	default:
		return ""
	}
}

// failureText is a failure in one line, without its body.
func failureText(f *journal.Failure) string {
	text := string(f.Reason)
	if f.Step != "" {
		text = f.Step
		if f.Undo {
			text = "undo of " + f.Step
		}
		text += " " + f.Outcome.String()
	}
	for _, more := range []string{string(f.Code), f.Problem, f.Detail} {
		if more != "" {
			text += ": " + clip(more, 300)
			break
		}
	}
	return text
}

func (c *Console) sagas(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s, ok := c.journal(q.Get("in"))
	if !ok {
		c.fail(w, r, http.StatusNotFound, "The console has no such journal.")
		return
	}
	f, err := parseSagaFilter(q)
	var cursor journal.Cursor
	if err == nil {
		cursor, err = parseSagaCursor(q.Get("page"))
	}
	if err != nil {
		c.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	d := sagasData{Source: s.Name, Filter: f, First: cursor == journal.Cursor{}}
	for i := range c.cfg.Sagas {
		d.Sources = append(d.Sources, c.cfg.Sagas[i].Name)
	}
	d.FirstQuery = template.URL(with(f.values(), "in", s.Name)) //nolint:gosec // url.Values encoded it
	d.Definitions = definitionsOf(ctx, s.Reader)
	req := f.request(time.Time{}, cursor, pageRows)
	records, err := s.Reader.Browse(ctx, req)
	d.Failure = explain(err)
	for i := range records {
		d.Rows = append(d.Rows, sagaRow{records[i], s.Name})
	}
	if n := len(records); n == pageRows {
		d.Next = c.cfg.Prefix + "/sagas?" + with(f.values(), "in", s.Name, "page", sagaCursorText(&records[n-1]))
	}
	if s.Operator != nil && userOf(r).Role == Operator && len(d.Rows) > 0 {
		d.Verbs, d.All = sagaListVerbs(f.Status), with(f.values(), "in", s.Name)
	}
	c.render(w, r, http.StatusOK, "sagas", page{Title: "Sagas", Nav: "sagas", Live: true, Data: &d})
}

// definitionsOf returns the names of the definitions that the journal knows. Without them the form has a field
// without suggestions.
func definitionsOf(ctx context.Context, from journal.Reader) []string {
	plans, err := from.Plans(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for i := range plans {
		names = append(names, plans[i].Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
