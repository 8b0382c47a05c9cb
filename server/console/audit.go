package console

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// auditData is one page of the audit log of one source, the youngest first.
type auditData struct {
	Source  string
	Sources []string
	Verbs   []string // that the source can have
	Filter  auditFilter
	Lines   []auditLine
	First   bool
	Next    string
	// Until is where a search ended that found too few lines in its time; zero: it did not.
	Until   time.Time
	Failure string
}

func (c *Console) audit(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	d := auditData{Source: q.Get("in"), First: q.Get("page") == ""}
	before, err := strconv.ParseInt(q.Get("page"), 10, 64)
	if !d.First && (err != nil || before < 1) {
		c.fail(w, r, http.StatusBadRequest, "The address of this page is damaged: begin at the first page.")
		return
	}
	if d.Filter, err = parseAuditFilter(q); err != nil {
		c.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	for i := range c.cfg.Stores {
		d.Sources = append(d.Sources, c.cfg.Stores[i].Name)
	}
	for i := range c.cfg.Sagas {
		d.Sources = append(d.Sources, c.cfg.Sagas[i].Name)
	}
	if d.Source == "" {
		d.Source = d.Sources[0]
	}
	read, verbs := c.auditSource(d.Source, d.Filter.Actor)
	if read == nil {
		c.fail(w, r, http.StatusNotFound, "The console has no such source.")
		return
	}
	d.Verbs = verbs
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	found, err := d.Filter.search(ctx, read, before)
	d.Lines, d.Until, d.Failure = found.lines, found.until, explain(err)
	if found.next > 0 {
		d.Next = c.cfg.Prefix + "/audit?" + with(d.Filter.values(), "in", d.Source, "page", strconv.FormatInt(found.next, 10))
	}
	c.render(w, r, http.StatusOK, "audit", page{Title: "Audit", Nav: "audit", Live: true, Data: &d})
}

// auditSource returns how the audit log of a store or a journal is read, and the verbs that it can have. For the name of
// neither it returns nil.
func (c *Console) auditSource(source, actor string) (auditReader, []string) {
	if s, ok := c.store(source); ok {
		return func(ctx context.Context, before int64, limit int) ([]auditLine, error) {
			entries, err := s.Reader.AuditPage(ctx, store.AuditRequest{Actor: actor, Before: before, Limit: limit})
			return c.keyAudit(source, entries), err
		}, []string{string(store.VerbResolve), string(store.VerbForget)}
	}
	if s, ok := c.journal(source); ok {
		return func(ctx context.Context, before int64, limit int) ([]auditLine, error) {
			entries, err := s.Reader.AuditPage(ctx, journal.AuditRequest{Actor: actor, Before: before, Limit: limit})
			return c.sagaAudit(source, entries), err
		}, slices.Sorted(maps.Keys(sagaVerbs))
	}
	return nil, nil
}

// sagaAudit is the audit log of a journal, as a page shows it.
func (c *Console) sagaAudit(source string, entries []journal.AuditEntry) []auditLine {
	lines := make([]auditLine, len(entries))
	for i, e := range entries {
		lines[i] = auditLine{
			Number: e.Number, At: e.At, Source: source, ID: e.ID.String(), Link: c.link("/saga", source, e.ID.String()),
			Verb: string(e.Verb), Step: e.Step, Actor: e.Actor, Reason: e.Reason, From: e.From.String(), To: e.To.String(), Fence: e.Fence,
		}
	}
	return lines
}

// journal returns the journal of that name, or the first one if the name is empty.
func (c *Console) journal(name string) (*Sagas, bool) {
	for i := range c.cfg.Sagas {
		if name == "" || c.cfg.Sagas[i].Name == name {
			return &c.cfg.Sagas[i], true
		}
	}
	return nil, false
}

// An auditLine is one line of an audit log, of keys or of sagas.
type auditLine struct {
	Number        int64
	At            time.Time
	Source        string
	ID, Link      string
	Verb, Step    string
	Actor, Reason string
	From, To      string
	Fence         int64
}

// keyAudit is the audit log of a store, as a page shows it.
func (c *Console) keyAudit(source string, entries []store.AuditEntry) []auditLine {
	lines := make([]auditLine, len(entries))
	for i, e := range entries {
		lines[i] = auditLine{
			Number: e.Number, At: e.At, Source: source, ID: e.ID.String(), Link: c.link("/key", source, e.ID.String()),
			Verb: string(e.Verb), Actor: e.Actor, Reason: e.Reason, From: e.From.String(), To: "forgotten", Fence: e.Fence,
		}
		if e.To != 0 {
			lines[i].To = e.To.String()
		}
	}
	return lines
}
