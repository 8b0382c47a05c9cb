package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// needsOfSource is how many things of one kind the overview asks one source for. The lists have all of them.
const needsOfSource = 50

// overviewData is the page that a person opens first: one list of all that needs a person, the oldest first.
type overviewData struct {
	Needs   []need
	Total   int64 // with those that More leads to
	AtLeast bool  // a source could not be read, or counts no further
	Unread  []unreadSource
	More    []moreLink // lists that have more than the page shows
	Sources []sourceLink
}

// A need is one key or saga that needs a person.
type need struct {
	Kind, Name string // of the confirmation's form: key or saga; and for tests and styles
	Source, ID string
	Link       string
	What       string // what happened, in plain words
	Detail     string
	At, Now    time.Time // by the clock of the source
	Verbs      []verb
	Step       string // that a verb about one step is for; "": there is none
}

// An unreadSource could not be asked: it is not known whether something there needs a person.
type unreadSource struct{ Name, Noun, Failure string }

// A sourceLink leads to a list of one source.
type sourceLink struct{ Name, Noun, Link string }

// A moreLink leads to the list of things that the page leaves out.
type moreLink struct {
	sourceLink
	Count   int64 // how many are left out, as far as it is known
	AtLeast bool  // there may be more than Count
}

// findings are what one source says.
type findings struct {
	needs  []need
	more   []moreLink
	unread *unreadSource
}

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	operator := userOf(r).Role == Operator
	found := make([]findings, len(c.cfg.Stores)+len(c.cfg.Sagas))
	var all sync.WaitGroup // the sources are asked side by side: a slow one delays no other
	for i := range c.cfg.Stores {
		all.Go(func() { found[i] = c.keysInNeed(r.WithContext(ctx), &c.cfg.Stores[i], operator) })
	}
	for i := range c.cfg.Sagas {
		all.Go(func() { found[len(c.cfg.Stores)+i] = c.sagasInNeed(r.WithContext(ctx), &c.cfg.Sagas[i], operator) })
	}
	all.Wait()
	d := overviewData{Sources: c.sourceLinks()}
	for _, f := range found {
		d.Total += int64(len(f.needs))
		d.AtLeast = d.AtLeast || f.unread != nil
		for _, more := range f.more {
			d.Total += more.Count
			d.AtLeast = d.AtLeast || more.AtLeast
		}
		d.Needs = append(d.Needs, f.needs...)
		d.More = append(d.More, f.more...)
		if f.unread != nil {
			d.Unread = append(d.Unread, *f.unread)
		}
	}
	slices.SortStableFunc(d.Needs, func(a, b need) int { return a.At.Compare(b.At) })
	c.render(w, r, http.StatusOK, "overview", page{Title: "Overview", Nav: "overview", Live: true, Data: &d})
}

// keysInNeed asks a store for its unknown and quarantined keys, and for its dead letters.
func (c *Console) keysInNeed(r *http.Request, s *Store, operator bool) (f findings) {
	for _, kind := range []string{stateAttention, stateDeadLetter} {
		filter := keyFilter{State: kind}
		records, err := s.Reader.List(r.Context(), filter.listRequest(store.Cursor{}, needsOfSource))
		if err != nil {
			f.unread = &unreadSource{s.Name, "keys", c.explain(r, err)}
			return f
		}
		for i := range records {
			f.needs = append(f.needs, c.keyNeed(s, &keyRow{records[i], s.Name}, kind, operator))
		}
		if len(records) == needsOfSource {
			f.more = append(f.more, c.moreKeys(r, s, kind))
		}
	}
	return f
}

// moreKeys leads to the keys that keysInNeed leaves out, and counts them.
func (c *Console) moreKeys(r *http.Request, s *Store, kind string) moreLink {
	more := moreLink{sourceLink: c.keyList(s.Name, kind), AtLeast: true}
	a, err := s.Reader.Attention(r.Context())
	if err != nil {
		c.explain(r, err) // the log has it
		return more
	}
	n := a.Unknown + a.Quarantined
	if kind == stateDeadLetter {
		n = a.DeadLetters
	}
	more.Count, more.AtLeast = max(n-needsOfSource, 0), a.Unknown+a.Quarantined+a.DeadLetters >= store.AttentionLimit
	return more
}

// moreSagas leads to the stuck sagas that sagasInNeed leaves out, and counts them.
func (c *Console) moreSagas(r *http.Request, s *Sagas) moreLink {
	more := moreLink{sourceLink: c.sagaList(s.Name, journal.Stuck.String()), AtLeast: true}
	stats, err := s.Reader.Stats(r.Context())
	if err != nil {
		c.explain(r, err) // the log has it
		return more
	}
	more.Count = max(stats.ByStatus[journal.Stuck]-needsOfSource, 0)
	more.AtLeast = stats.ByStatus[journal.Stuck] >= journal.StatsLimit
	return more
}

func (c *Console) keyNeed(s *Store, k *keyRow, kind string, operator bool) need {
	n := need{
		Kind: kindKey, Name: k.State.String(), Source: s.Name, ID: k.ID.String(), Link: c.link("/key", s.Name, k.ID.String()), At: k.CreatedAt, Now: k.Now,
	}
	work := cmp.Or(k.Route, "a call")
	switch {
	case kind == stateDeadLetter:
		n.Name = kind
		n.What = strings.TrimPrefix(work, "inbox ") + " gave up on a message"
		n.Detail = "Its dead letter is written. If the broker delivers it again, nothing runs."
	case k.State == store.StateQuarantined:
		n.What = plural(int64(k.RecoveryAttempts), "process") + " died while running " + work
		n.Detail = "Nothing runs it again until somebody decides."
	default:
		n.What = "It is not known whether " + work + " took effect"
		n.Detail = "Its run ended without a result. Nothing runs it again until somebody decides."
	}
	switch {
	case !operator || s.Guard == nil:
	case kind == stateDeadLetter:
		n.Verbs = []verb{verbForgetLetter}
	default:
		n.Verbs = keyVerbsFor(k, s.NoAnswers == "")
	}
	return n
}

// sagasInNeed asks a journal for its stuck sagas.
func (c *Console) sagasInNeed(r *http.Request, s *Sagas, operator bool) (f findings) {
	records, err := s.Reader.Browse(r.Context(), journal.BrowseRequest{
		Statuses: []journal.Status{journal.Stuck}, OldestFirst: true, Limit: needsOfSource,
	})
	if err != nil {
		f.unread = &unreadSource{s.Name, "sagas", c.explain(r, err)}
		return f
	}
	for i := range records {
		row := sagaRow{records[i], s.Name}
		n := need{
			Kind: kindSaga, Name: row.State(), Source: s.Name, ID: row.ID.String(), Link: c.link("/saga", s.Name, row.ID.String()),
			What: "A saga " + row.Name + " is stuck", Detail: row.Why(), At: row.FinishedAt, Now: row.Now, // since it is stuck
		}
		if n.At.IsZero() {
			n.At = row.CreatedAt
		}
		if operator && s.Operator != nil {
			n.Verbs = sagaVerbsFor(&row)
			if step := stuckStep(&row); step != nil {
				n.Step = step.Plan.Name
				n.Verbs = append(stepVerbsFor(&row, step, s.Operator.HasDefinition(row.Plan)), n.Verbs...)
			}
		}
		f.needs = append(f.needs, n)
	}
	if len(records) == needsOfSource {
		f.more = []moreLink{c.moreSagas(r, s)}
	}
	return f
}

func (c *Console) keyList(source, kind string) sourceLink {
	page, noun := "/keys", "keys"
	if kind == stateDeadLetter {
		page, noun = "/letters", "dead letters"
	}
	return sourceLink{source, noun, c.cfg.Prefix + page + "?" + url.Values{"in": {source}, "state": {kind}}.Encode()}
}

func (c *Console) sagaList(source, status string) sourceLink {
	return sourceLink{source, "sagas", c.cfg.Prefix + "/sagas?" + url.Values{"in": {source}, "status": {status}}.Encode()}
}

// sourceLinks leads to everything that the console knows.
func (c *Console) sourceLinks() (links []sourceLink) {
	for i := range c.cfg.Stores {
		links = append(links, c.keyList(c.cfg.Stores[i].Name, stateAny))
	}
	for i := range c.cfg.Sagas {
		links = append(links, c.sagaList(c.cfg.Sagas[i].Name, statusAny))
	}
	return links
}
