package sagatest

import (
	"fmt"

	"github.com/fanonce/fanonce/saga/journal"
)

var readerAuditRules = []rule{
	{"audit page: the youngest first, page by page", auditPages},
}

func auditPages(c *check) {
	one, two := makeStuck(c), makeStuck(c)
	for i := range 5 {
		for _, r := range []*journal.Record{&one, &two} {
			by := journal.Audit{Verb: journal.VerbRetry, Actor: []string{"ann", "bob"}[i%2], Reason: fmt.Sprint("reason ", i)}
			got, won, err := c.journal.Change(c.Context(), journal.Change{ID: r.ID, Revision: r.Revision, Status: journal.Stuck, By: by})
			c.must("Change", err)
			want(c, "won", won, true)
			*r = got
		}
	}
	all, err := c.journal.Reader().AuditPage(c.Context(), journal.AuditRequest{Limit: 100})
	c.must("AuditPage", err)
	for _, tt := range []struct {
		name string
		req  journal.AuditRequest
		want int
	}{
		{"all", journal.AuditRequest{}, 10},
		{"of one saga", journal.AuditRequest{ID: one.ID}, 5},
		{"of an actor", journal.AuditRequest{Actor: "ann"}, 6},
		{"of one saga by an actor", journal.AuditRequest{ID: two.ID, Actor: "bob"}, 2},
		{"of nobody", journal.AuditRequest{Actor: "an"}, 0},
		{"of a saga that is missing", journal.AuditRequest{ID: request(newEngine()).ID}, 0},
	} {
		var expect []journal.AuditEntry
		for _, e := range all {
			if (tt.req.Actor == "" || tt.req.Actor == e.Actor) && (tt.req.ID == journal.ID{} || tt.req.ID == e.ID) {
				expect = append(expect, e)
			}
		}
		want(c, "lines "+tt.name, len(expect), tt.want)
		for _, limit := range []int{1, 4, 100} {
			c.wantAudit(tt.name, tt.req, limit, expect)
		}
	}
}

// wantAudit reads the audit log in pages.
func (c *check) wantAudit(what string, req journal.AuditRequest, limit int, expect []journal.AuditEntry) {
	c.Helper()
	var got []journal.AuditEntry
	for req.Limit = limit; ; req.Before = got[len(got)-1].Number {
		page, err := c.reader.AuditPage(c.Context(), req)
		c.must("AuditPage", err)
		got = append(got, page...)
		if len(page) < limit || len(got) > len(expect) {
			break
		}
	}
	want(c, "lines "+what, len(got), len(expect))
	for i, e := range expect {
		want(c, fmt.Sprintf("line %d %s", i, what), fmt.Sprint(got[i]), fmt.Sprint(e))
		if e.Number <= 0 || i > 0 && e.Number >= expect[i-1].Number {
			c.Fatalf("line %d %s has the number %d, which does not grow", i, what, e.Number)
		}
	}
}
