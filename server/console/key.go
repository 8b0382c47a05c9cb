package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// auditRows is how many lines of the audit log the page of one key or saga has.
const auditRows = 50

// keyData is the page of one key. No part of a body or a memo is in it.
type keyData struct {
	Source string
	ID     string
	Row    *keyRow // nil: none is stored.
	// Forgotten is the line of the audit log by which a person deleted the record. nil: it was never deleted.
	Forgotten *auditLine
	Timeline  []moment
	Audit     []auditLine
	Failure   string
	Verbs     []verb
	NoVerb    string // why a verb that fits is not among Verbs; "": none is missing
}

// A moment is one line of a timeline.
type moment struct {
	At     time.Time
	Kind   string // for its mark: record, audit or future
	What   string
	Detail string
}

func (c *Console) key(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s, ok := c.store(q.Get("in"))
	id, err := store.ParseID(q.Get("id"))
	if !ok || err != nil {
		c.fail(w, r, http.StatusNotFound, "The console has no such store, or the address names no ID.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	d := keyData{Source: s.Name, ID: id.String()}
	status := http.StatusOK
	rec, err := s.Reader.Show(ctx, id)
	switch {
	case err == nil:
		d.Row = &keyRow{rec, s.Name}
	case errors.Is(err, store.ErrNotFound):
		status = http.StatusNotFound
	default:
		status, d.Failure = http.StatusServiceUnavailable, c.explain(r, err)
	}
	entries, err := s.Reader.AuditPage(ctx, store.AuditRequest{ID: id, Limit: auditRows})
	if err != nil {
		d.Failure = cmp.Or(d.Failure, c.explain(r, err))
	}
	d.Audit = c.keyAudit(s.Name, entries)
	if status == http.StatusNotFound && len(entries) > 0 && entries[0].Verb == store.VerbForget {
		status, d.Forgotten = http.StatusOK, &d.Audit[0] // the person sees that it is done
	}
	d.Timeline = timelineOf(d.Row, entries)
	if d.Row != nil && s.Guard != nil && userOf(r).Role == Operator {
		d.Verbs = keyVerbsFor(d.Row, s.NoAnswers == "")
		if needsDecision(d.Row) {
			d.NoVerb = s.NoAnswers
		}
	}
	c.render(w, r, status, "key", page{Title: "Key", Nav: "keys", Live: true, Data: &d})
}

// timelineOf is everything that is known of a key, in the order of time.
func timelineOf(row *keyRow, audit []store.AuditEntry) []moment {
	var all []moment
	if row != nil {
		all = recordMoments(row)
	}
	for _, a := range audit {
		to := "forgotten"
		if a.To != 0 {
			to = toWords(a.To.String())
		}
		all = append(all, moment{a.At, "audit", string(a.Verb) + " by " + a.Actor, toWords(a.From.String()) + " → " + to})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	return all
}

// recordMoments are the times that the record itself has.
func recordMoments(k *keyRow) []moment {
	var all []moment
	add := func(at time.Time, past, future, detail string) {
		switch {
		case at.IsZero():
		case at.After(k.Now):
			all = append(all, moment{at, "future", future, detail})
		default:
			all = append(all, moment{at, "record", past, detail})
		}
	}
	add(k.FirstSent, "First sent by the caller", "First sent by the caller, says its clock", "")
	detail := ""
	if k.Fence > 1 {
		detail = "the fence is " + strconv.FormatInt(k.Fence, 10) + " now: the key changed hands " + plural(k.Fence-1, "time")
	}
	add(k.CreatedAt, "First claim", "First claim", detail)
	switch k.State {
	case store.StateInProgress:
		add(k.LeaseUntil, "The lease ended: the owner is dead", "The lease ends, unless it is renewed", "fence "+strconv.FormatInt(k.Fence, 10))
	case store.StateCompleted:
		add(k.AnswerUntil, "The stored answer was dropped", "The stored answer is dropped", "")
		add(k.ReplayUntil, "Retries no longer get the answer", "Retries get the answer until then", "status "+strconv.Itoa(k.Answer.Status))
	default:
	}
	add(k.ExpiresAt, "The record may be swept", "The record may be swept", "")
	return all
}
