package console

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// pageRows is how many rows a page of a list has.
const pageRows = 100

// keysData is a list of keys of one store.
type keysData struct {
	Source     string
	Sources    []string
	Filter     keyFilter
	Rows       []keyRow
	First      bool   // It is the first page.
	Next       string // The address of the next page; "" at the end.
	Failure    string
	Verbs      []verbChoice // Empty: nothing can be changed.
	All        string       // The filter as a query, for a verb on all matches.
	FirstQuery template.URL // The query of the first page.
	Letters    bool         // The list is that of dead letters.
}

// A keyRow is one key in a list.
type keyRow struct {
	store.Record
	Source string
}

// Dead reports whether the key's owner is dead.
func (k *keyRow) Dead() bool { return k.State == store.StateInProgress && k.LeaseLeft() <= 0 }

// Parented reports whether the key has a caller's record.
func (k *keyRow) Parented() bool { return k.Parent != store.ID{} }

func (c *Console) keys(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f, err := parseKeyFilter(q)
	if err != nil {
		c.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if f.State == stateDeadLetter {
		c.messages(w, r)
		return
	}
	c.keyList(w, r, f, "/keys", page{Title: "Keys", Nav: "keys", Live: true})
}

// messages answers with the dead letters of inboxes.
func (c *Console) messages(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	q.Set("state", stateDeadLetter)
	f, err := parseKeyFilter(q)
	if err != nil {
		c.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	c.keyList(w, r, f, "/messages", page{Title: "Messages", Nav: "messages", Live: true})
}

// keyList answers with a list of keys at an address.
func (c *Console) keyList(w http.ResponseWriter, r *http.Request, f keyFilter, at string, p page) {
	s, ok := c.store(r.URL.Query().Get("in"))
	if !ok {
		c.fail(w, r, http.StatusNotFound, "The console has no such store.")
		return
	}
	cursor, err := parseCursor(r.URL.Query().Get("page"))
	if err != nil {
		c.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	d := keysData{Source: s.Name, Filter: f, First: cursor == store.Cursor{}, Letters: f.State == stateDeadLetter}
	for i := range c.cfg.Stores {
		d.Sources = append(d.Sources, c.cfg.Stores[i].Name)
	}
	d.FirstQuery = template.URL(with(f.values(), "in", s.Name)) //nolint:gosec // url.Values encoded it
	records, err := f.read(ctx, s.Reader, cursor, pageRows)
	d.Failure = explain(err)
	for i := range records {
		d.Rows = append(d.Rows, keyRow{records[i], s.Name})
	}
	if n := len(records); n == pageRows {
		d.Next = c.cfg.Prefix + at + "?" + with(f.values(), "in", s.Name, "page", cursorText(store.Cursor{CreatedAt: records[n-1].CreatedAt, ID: records[n-1].ID}))
	}
	if s.Guard != nil && userOf(r).Role == Operator && len(d.Rows) > 0 {
		d.Verbs, d.All = keyListVerbs(f.State), with(f.values(), "in", s.Name)
	}
	p.Data = &d
	c.render(w, r, http.StatusOK, "keys", p)
}

// read returns one page of the keys that the filter matches.
func (f *keyFilter) read(ctx context.Context, from store.Reader, at store.Cursor, limit int) ([]store.Record, error) {
	if f.Windowed() {
		return from.Browse(ctx, f.browseRequest(time.Now(), at, limit))
	}
	return from.List(ctx, f.listRequest(at, limit))
}

// store returns the store of that name, or the first one if the name is empty.
func (c *Console) store(name string) (*Store, bool) {
	for i := range c.cfg.Stores {
		if name == "" || c.cfg.Stores[i].Name == name {
			return &c.cfg.Stores[i], true
		}
	}
	return nil, false
}

// with returns the query of v with further values.
func with(v url.Values, pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

// clone is a copy of v that with may change. nil is empty.
func clone(v url.Values) url.Values {
	out := make(url.Values, len(v)+1)
	for name, values := range v {
		out[name] = values
	}
	return out
}
