package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
	d.Sources = append(c.storeNames(), c.journalNames()...)
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
	d.Lines, d.Until, d.Failure = found.lines, found.until, c.explain(r, err)
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
		}, slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(sagaVerbs)), string(journal.VerbMigrate), string(journal.VerbSignal))))
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

// An auditFilter says which lines of an audit log a page shows. An empty field means any.
type auditFilter struct {
	Actor, Verb string
	// Batch is the name of a job with many targets. Its lines have the name at the beginning of their reason.
	Batch string
}

// parseAuditFilter reads a filter from the values of an address.
func parseAuditFilter(v url.Values) (auditFilter, error) {
	f := auditFilter{Actor: v.Get("actor"), Verb: v.Get("verb"), Batch: strings.TrimSpace(v.Get("batch"))}
	if !oneLine(f.Actor, store.MaxActorBytes) || !oneLine(f.Verb, 64) {
		return f, badInput("An actor and a verb are one line of text.")
	}
	if len(f.Batch) > maxBatchBytes || strings.Trim(f.Batch, "0123456789abcdef") != "" {
		return f, badInput("The name of a batch has the digits 0 to 9 and a to f, as the page of its end shows it.")
	}
	return f, nil
}

// values are the filter as an address has it.
func (a *auditFilter) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"actor": a.Actor, "verb": a.Verb, "batch": a.Batch} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// Any reports whether the page shows only a part of the log.
func (a *auditFilter) Any() bool { return *a != auditFilter{} }

func (a *auditFilter) matches(l *auditLine) bool {
	return (a.Verb == "" || a.Verb == l.Verb) && (a.Batch == "" || strings.HasPrefix(l.Reason, batchMark(a.Batch)))
}

// An auditReader reads at most limit lines of an audit log before a number, the youngest first.
type auditReader func(ctx context.Context, before int64, limit int) ([]auditLine, error)

// A foundAudit is a part of an audit log.
type foundAudit struct {
	lines []auditLine
	next  int64     // number of the line where the next page goes on; 0: there is none
	until time.Time // as auditData.Until
}

const (
	auditBatch = 500             // lines that a search reads at once
	searchTime = 2 * time.Second // of one page
)

// search reads the log in parts until it has a page of lines. A reader knows neither verbs nor batches, so a search for a
// rare one reads many lines. It ends after searchTime, and the person decides whether it goes on.
func (a *auditFilter) search(ctx context.Context, read auditReader, before int64) (found foundAudit, err error) {
	limit := pageRows
	if a.Verb != "" || a.Batch != "" {
		limit = auditBatch
	}
	for begin := time.Now(); ; {
		lines, err := read(ctx, before, limit)
		if err != nil {
			return found, err
		}
		for i := range lines {
			if a.matches(&lines[i]) {
				found.lines = append(found.lines, lines[i])
			}
			if len(found.lines) == pageRows {
				found.next = lines[i].Number
				return found, nil
			}
		}
		if len(lines) < limit || lines[len(lines)-1].Number == 0 {
			return found, nil
		}
		last := &lines[len(lines)-1]
		if before = last.Number; time.Since(begin) > searchTime {
			found.next, found.until = before, last.At
			return found, nil
		}
	}
}
