package console

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
	Verbs       []verb
	All         string
	Elsewhere   elsewhere
}

// A sagaRow is one saga in a list or on its page.
type sagaRow struct {
	journal.Record
	Source string
}

// State is the name of the status.
func (s *sagaRow) State() string { return s.Status.String() }

// mostWhy is how many bytes of a reason the page shows.
const mostWhy = 400

// Why says why the saga is stuck, failed or deferred; "" otherwise.
func (s *sagaRow) Why() string {
	switch {
	case s.StuckOn != nil:
		return clip(s.StuckOn.String(), mostWhy)
	case s.Cause != nil:
		return clip(s.Cause.String(), mostWhy)
	case s.Deferred != nil:
		return "deferred: " + clip(s.Deferred.String(), mostWhy)
	case s.Corrupt != nil:
		return clip(s.Corrupt.Error(), mostWhy)
	default:
		return ""
	}
}

func (c *Console) sagas(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if _, ok := c.journal(q.Get("in")); !ok {
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
	s, others := c.journalInNeed(r.WithContext(ctx), q.Get("in"), &f)
	d := sagasData{Elsewhere: others, Source: s.Name, Sources: c.journalNames(), Filter: f, First: cursor == journal.Cursor{}}
	d.FirstQuery = template.URL(with(f.values(), "in", s.Name)) //nolint:gosec // url.Values encoded it
	d.Definitions = definitionsOf(ctx, s.Reader)
	records, err := f.read(ctx, s.Reader, cursor, pageRows)
	d.Failure = c.explain(r, err)
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

func (c *Console) journalNames() []string {
	names := make([]string, len(c.cfg.Sagas))
	for i := range c.cfg.Sagas {
		names[i] = c.cfg.Sagas[i].Name
	}
	return names
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

// The kinds of sagas that a list can show, by their names in an address. The other kinds are the names of statuses.
const (
	statusUnfinished = "unfinished"
	statusAny        = "any"
)

var sagaStatuses = func() map[string]journal.Status {
	m := make(map[string]journal.Status)
	for s := journal.Running; s <= journal.Abandoned; s++ {
		m[s.String()] = s
	}
	return m
}()

// statusNames are the statuses in the order in which a form offers them.
var statusNames = []string{statusUnfinished, "stuck", "running", "compensating", "completed", "compensated", "abandoned", statusAny}

// A sagaFilter says which sagas a list shows, and which sagas a verb is for.
type sagaFilter struct {
	Status, Name, StuckOn string
	// Within bounds the age of the sagas of a list that has finished ones. Unfinished ones are listed whole.
	Within string

	within time.Duration
}

// parseSagaFilter reads a filter from the values of an address or a form.
func parseSagaFilter(v url.Values) (sagaFilter, error) {
	f := sagaFilter{
		Status: cmp.Or(v.Get("status"), statusUnfinished), Name: strings.TrimSpace(v.Get("name")),
		StuckOn: strings.TrimSpace(v.Get("stuckon")), Within: cmp.Or(v.Get("within"), defaultWithin),
	}
	if f.StuckOn != "" {
		f.Status = journal.Stuck.String()
	}
	if _, ok := sagaStatuses[f.Status]; !ok && f.Status != statusUnfinished && f.Status != statusAny {
		return f, badInput("There is no such status.")
	}
	if !oneLine(f.Name, 512) || !oneLine(f.StuckOn, 4096) {
		return f, badInput("A definition and a step are one line of text.")
	}
	var err error
	f.within, err = parseAge(f.Within)
	return f, err
}

// values are the filter as an address has it.
func (s *sagaFilter) values() url.Values {
	v := url.Values{"status": {s.Status}}
	for name, value := range map[string]string{"name": s.Name, "stuckon": s.StuckOn} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if s.Windowed() {
		v.Set("within", s.Within)
	}
	return v
}

// Windowed reports whether the list has finished sagas, and so is bounded by their age.
func (s *sagaFilter) Windowed() bool {
	status := sagaStatuses[s.Status]
	return s.Status == statusAny || status.Final()
}

// OldestFirst reports whether the list begins with what has waited longest: sagas that wait for a person.
func (s *sagaFilter) OldestFirst() bool { return s.Status == journal.Stuck.String() }

// read returns one page of the sagas that the filter matches.
func (s *sagaFilter) read(ctx context.Context, from journal.Reader, at journal.Cursor, limit int) ([]journal.Record, error) {
	req := s.request(time.Time{}, at, limit)
	if s.Windowed() {
		// An age is by the journal's clock, which each record has. Without a youngest saga there are no others.
		youngest, err := from.Browse(ctx, journal.BrowseRequest{From: time.Unix(0, 0), Limit: 1})
		if err != nil || len(youngest) == 0 {
			return nil, err
		}
		req.From = youngest[0].Now.Add(-s.within)
	}
	return from.Browse(ctx, req)
}

// request is the request for the sagas of a list that no age bounds, up to a time. The zero until means that none is too young.
func (s *sagaFilter) request(until time.Time, before journal.Cursor, limit int) journal.BrowseRequest {
	req := journal.BrowseRequest{
		To: until, Name: s.Name, StuckOn: s.StuckOn, OldestFirst: s.OldestFirst(), Before: before, Limit: limit,
	}
	switch {
	case s.Status == statusUnfinished:
		req.Statuses = []journal.Status{journal.Running, journal.Compensating, journal.Stuck}
	case s.Status != statusAny:
		req.Statuses = []journal.Status{sagaStatuses[s.Status]}
	}
	return req
}

// sagaCursorText is a place in a list of sagas, as an address has it.
func sagaCursorText(r *journal.Record) string {
	return strconv.FormatInt(r.CreatedAt.UnixNano(), 10) + "." + r.ID.String()
}

// parseSagaCursor reads sagaCursorText: an ID of a saga has the bytes of an ID of a key.
func parseSagaCursor(text string) (journal.Cursor, error) {
	c, err := parseCursor(text)
	return journal.Cursor{CreatedAt: c.CreatedAt, ID: journal.ID(c.ID)}, err
}
