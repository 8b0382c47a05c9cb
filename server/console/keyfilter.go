package console

import (
	"cmp"

	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

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
func (f *keyFilter) values() url.Values {
	v := url.Values{"state": {f.State}}
	for name, value := range map[string]string{"route": f.Route, "effect": f.Effect, "older": f.Older} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if f.Windowed() {
		v.Set("within", f.Within)
	}
	return v
}

// Windowed reports whether the list is bounded by the age of its keys. The store knows the others by a list of
// their own.
func (f *keyFilter) Windowed() bool {
	switch f.State {
	case stateAttention, stateUnknown, stateQuarantined, stateDeadLetter:
		return false
	default:
		return true
	}
}

// listRequest is the request for keys that need a person, the oldest first.
func (f *keyFilter) listRequest(after store.Cursor, limit int) store.ListRequest {
	req := store.ListRequest{Route: f.Route, Effect: keyEffects[f.Effect], After: after, Limit: limit}
	switch f.State {
	case stateDeadLetter:
		req.DeadLetters = true
	case stateUnknown, stateQuarantined:
		req.States = []store.State{keyStates[f.State]}
	default:
		req.States = []store.State{store.StateUnknown, store.StateQuarantined}
	}
	return req
}

// browseRequest is the request for keys within a window, the youngest first.
func (f *keyFilter) browseRequest(now time.Time, before store.Cursor, limit int) store.BrowseRequest {
	req := store.BrowseRequest{From: now.Add(-f.within), Route: f.Route, Effect: keyEffects[f.Effect], Before: before, Limit: limit}
	if f.older > 0 {
		req.To = now.Add(-f.older)
	}
	if f.State != stateAny {
		req.States = []store.State{keyStates[f.State]}
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
