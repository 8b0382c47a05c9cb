package console

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
	Verbs      []verb       // Empty: nothing can be changed.
	All        string       // The filter as a query, for a verb on all matches.
	FirstQuery template.URL // The query of the first page.
	Letters    bool         // The rows are dead letters.
	Elsewhere  elsewhere
}

// A keyRow is one key in a list.
type keyRow struct {
	store.Record
	Source string
}

// Dead reports whether the key's owner is dead.
func (k *keyRow) Dead() bool { return k.State == store.StateInProgress && k.LeaseLeft() <= 0 }

// Lost reports whether nobody knows what the dead owner did. After a death of another effect class the next call runs.
func (k *keyRow) Lost() bool { return k.Dead() && k.Effect == store.Opaque }

// Parented reports whether the key has a caller's record.
func (k *keyRow) Parented() bool { return k.Parent != store.ID{} }

// keys answers with a list of keys, or of the dead letters of inboxes.
func (c *Console) keys(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	at, p := "/keys", page{Title: "Keys", Nav: "keys", Live: true}
	if r.URL.Path == "/letters" || q.Get("state") == stateDeadLetter {
		q.Set("state", stateDeadLetter)
		at, p.Title, p.Nav = "/letters", "Dead letters", "letters"
	}
	if _, ok := c.store(q.Get("in")); !ok {
		c.fail(w, r, http.StatusNotFound, "The console has no such store.")
		return
	}
	f, err := parseKeyFilter(q)
	var cursor store.Cursor
	if err == nil {
		cursor, err = parseCursor(q.Get("page"))
	}
	if err != nil {
		c.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	s, others := c.storeInNeed(r.WithContext(ctx), q.Get("in"), &f)
	d := keysData{Elsewhere: others, Source: s.Name, Sources: c.storeNames(), Filter: f, First: cursor == store.Cursor{}, Letters: f.State == stateDeadLetter}
	d.FirstQuery = template.URL(with(f.values(), "in", s.Name)) //nolint:gosec // url.Values encoded it
	records, err := f.read(ctx, s.Reader, cursor, pageRows)
	d.Failure = c.explain(r, err)
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
func (k *keyFilter) read(ctx context.Context, from store.Reader, at store.Cursor, limit int) ([]store.Record, error) {
	if !k.Windowed() {
		return from.List(ctx, k.listRequest(at, limit))
	}
	// An age is by the store's clock, which each record has. Without a youngest record there are no others.
	youngest, err := from.Browse(ctx, store.BrowseRequest{From: time.Unix(0, 0), Limit: 1})
	if err != nil || len(youngest) == 0 {
		return nil, err
	}
	return from.Browse(ctx, k.browseRequest(youngest[0].Now, at, limit))
}

func (c *Console) storeNames() []string {
	names := make([]string, len(c.cfg.Stores))
	for i := range c.cfg.Stores {
		names[i] = c.cfg.Stores[i].Name
	}
	return names
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

// The kinds of keys that a list can show, by their names in an address. The other kinds are the names of states.
const (
	stateAttention   = "attention" // unknown and quarantined
	stateUnknown     = "unknown"
	stateQuarantined = "quarantined"
	stateDeadLetter  = "dead-letter"
	stateAny         = "any"
)

// keyStates are the states by their names.
var keyStates = func() map[string]store.State {
	m := make(map[string]store.State)
	for s := store.StateInProgress; s <= store.StateCancelled; s++ {
		m[s.String()] = s
	}
	return m
}()

var keyEffects = map[string]store.Effect{
	store.Transactional.String(): store.Transactional, store.Keyed.String(): store.Keyed, store.Opaque.String(): store.Opaque,
}

// A keyFilter says which keys a list shows, and which keys a verb is for.
type keyFilter struct {
	State, Route, Effect string
	// Within and Older bound the age of the records, as durations such as "90m" or "2d". They do not bound the
	// kinds that need a person: these are listed whole.
	Within, Older string

	within, older time.Duration
}

// The names in the order in which a form offers them.
var (
	stateNames = []string{
		stateAttention, stateUnknown, stateQuarantined, "in_progress", "completed", "released", "cancelled", stateAny,
	}
	effectNames = []string{store.Transactional.String(), store.Keyed.String(), store.Opaque.String()}
)

const defaultWithin = "1h"

// parseKeyFilter reads a filter from the values of an address or a form.
func parseKeyFilter(v url.Values) (keyFilter, error) {
	f := keyFilter{
		State: cmp.Or(v.Get("state"), stateAttention), Route: v.Get("route"), Effect: v.Get("effect"),
		Within: cmp.Or(v.Get("within"), defaultWithin), Older: v.Get("older"),
	}
	if _, ok := keyStates[f.State]; !ok && f.State != stateAttention && f.State != stateDeadLetter && f.State != stateAny {
		return f, badInput("There is no such state.")
	}
	if _, ok := keyEffects[f.Effect]; !ok && f.Effect != "" {
		return f, badInput("There is no such effect class.")
	}
	if !oneLine(f.Route, 2048) {
		return f, badInput("A route is one line of text.")
	}
	var err error
	if f.within, err = parseAge(f.Within); err != nil {
		return f, err
	}
	if f.older, err = parseAge(f.Older); err != nil {
		return f, err
	}
	if f.older >= f.within {
		return f, badInput("No key is younger than the one age and older than the other: change the ages.")
	}
	return f, nil
}

// parseAge reads a duration. Days are the unit that people use and [time.ParseDuration] lacks.
func parseAge(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(min(max(n, -1), 100_000)) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		return 0, badInput("An age is a number with a unit, as 90m, 12h or 2d.")
	}
	return d, nil
}

// values are the filter as an address has it.
func (k *keyFilter) values() url.Values {
	v := url.Values{"state": {k.State}}
	for name, value := range map[string]string{"route": k.Route, "effect": k.Effect, "older": k.Older} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if k.Windowed() {
		v.Set("within", k.Within)
	}
	return v
}

// Windowed reports whether the list is bounded by the age of its keys. The store knows the others by a list of
// their own.
func (k *keyFilter) Windowed() bool {
	switch k.State {
	case stateAttention, stateUnknown, stateQuarantined, stateDeadLetter:
		return false
	default:
		return true
	}
}

// listRequest is the request for keys that need a person, the oldest first.
func (k *keyFilter) listRequest(after store.Cursor, limit int) store.ListRequest {
	req := store.ListRequest{Route: k.Route, Effect: keyEffects[k.Effect], After: after, Limit: limit}
	switch k.State {
	case stateDeadLetter:
		req.DeadLetters = true
	case stateUnknown, stateQuarantined:
		req.States = []store.State{keyStates[k.State]}
	default:
		req.States = []store.State{store.StateUnknown, store.StateQuarantined}
	}
	return req
}

// browseRequest is the request for keys within a window, the youngest first.
func (k *keyFilter) browseRequest(now time.Time, before store.Cursor, limit int) store.BrowseRequest {
	req := store.BrowseRequest{From: now.Add(-k.within), Route: k.Route, Effect: keyEffects[k.Effect], Before: before, Limit: limit}
	if k.older > 0 {
		req.To = now.Add(-k.older)
	}
	if k.State != stateAny {
		req.States = []store.State{keyStates[k.State]}
	}
	return req
}

// cursorText is a place in a list of keys, as an address has it.
func cursorText(c store.Cursor) string {
	return strconv.FormatInt(c.CreatedAt.UnixNano(), 10) + "." + c.ID.String()
}

// parseCursor reads cursorText. The empty text is the beginning.
func parseCursor(text string) (c store.Cursor, err error) {
	if text == "" {
		return c, nil
	}
	at, id, _ := strings.Cut(text, ".")
	nanos, err := strconv.ParseInt(at, 10, 64)
	if err == nil {
		c.ID, err = store.ParseID(id)
	}
	if err != nil {
		return c, badInput("The address of this page is damaged: begin at the first page.")
	}
	c.CreatedAt = time.Unix(0, nanos).UTC()
	return c, nil
}
