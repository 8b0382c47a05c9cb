package console

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

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
func (f *sagaFilter) values() url.Values {
	v := url.Values{"status": {f.Status}}
	for name, value := range map[string]string{"name": f.Name, "stuckon": f.StuckOn} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if f.Windowed() {
		v.Set("within", f.Within)
	}
	return v
}

// Windowed reports whether the list has finished sagas, and so is bounded by their age.
func (f *sagaFilter) Windowed() bool {
	s := sagaStatuses[f.Status]
	return f.Status == statusAny || s.Final()
}

// request is the request for the sagas of the list, the youngest first. The zero until means now.
func (f *sagaFilter) request(until time.Time, before journal.Cursor, limit int) journal.BrowseRequest {
	req := journal.BrowseRequest{To: until, Name: f.Name, StuckOn: f.StuckOn, Before: before, Limit: limit}
	switch {
	case f.Status == statusUnfinished:
		req.Statuses = []journal.Status{journal.Running, journal.Compensating, journal.Stuck}
	case f.Status != statusAny:
		req.Statuses = []journal.Status{sagaStatuses[f.Status]}
	}
	if f.Windowed() {
		if until.IsZero() {
			until = time.Now()
		}
		req.From = until.Add(-f.within)
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

// parseSagaID reads the ID of a saga.
func parseSagaID(text string) (journal.ID, error) {
	id, err := store.ParseID(text)
	return journal.ID(id), err
}
