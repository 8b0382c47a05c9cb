package sagatest

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

var browseRules = []rule{
	{"browse: in both orders, page by page", browsePages},
	{"browse: by status", browseByStatus},
	{"browse: in a window", browseInAWindow},
	{"browse: by name", browseByName},
	{"browse: by the step on which sagas are stuck", browseByStep},
	{"browse: sagas without their content", browseHidesContent},
}

// youngestFirst sorts sagas as a list does.
func youngestFirst(all []journal.Record) []journal.Record {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b journal.Record) int {
		return -cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return all
}

// wantList fails the rule if a list is not these sagas, in both orders. It reads the list in pages of several sizes.
func (c *check) wantList(what string, req journal.BrowseRequest, sagas ...journal.Record) {
	c.Helper()
	sagas = youngestFirst(sagas)
	c.wantPages(what, req, sagas)
	if req.Unfinished() {
		slices.Reverse(sagas)
		req.OldestFirst = true
		c.wantPages(what+", the oldest first", req, sagas)
	}
}

// wantPages fails the rule if a list is not these sagas in this order.
func (c *check) wantPages(what string, req journal.BrowseRequest, sagas []journal.Record) {
	c.Helper()
	for _, limit := range []int{1, 3, 100} {
		var got []journal.Record
		for req.Limit = limit; ; {
			page, err := c.reader.Browse(c.Context(), req)
			c.must(what, err)
			if len(page) > limit {
				c.Fatalf("%s: a page of %d sagas, want at most %d", what, len(page), limit)
			}
			got = append(got, page...)
			if len(page) < limit || len(got) > len(sagas) {
				break
			}
			last := page[len(page)-1]
			req.Before = journal.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
		}
		req.Before = journal.Cursor{}
		if len(got) != len(sagas) {
			c.Fatalf("%s, in pages of %d: %d sagas, want %d", what, limit, len(got), len(sagas))
		}
		for i := range sagas {
			if got[i].ID != sagas[i].ID {
				c.Fatalf("%s, in pages of %d: saga %d is %v of %v, want %v of %v",
					what, limit, i, got[i].ID, got[i].CreatedAt, sagas[i].ID, sagas[i].CreatedAt)
			}
		}
	}
}

func browsePages(c *check) {
	var all []journal.Record
	engine := c.heartbeat(long)
	for range 7 {
		all = append(all, c.start(engine))
	}
	c.wantList("all sagas", journal.BrowseRequest{}, all...)
	c.wantList("running sagas", journal.BrowseRequest{Statuses: []journal.Status{journal.Running}}, all...)
	sorted := youngestFirst(all)
	at := journal.Cursor{CreatedAt: sorted[2].CreatedAt, ID: sorted[2].ID}
	c.wantList("a window that ends before the page", journal.BrowseRequest{Statuses: []journal.Status{journal.Running}, To: sorted[0].CreatedAt.Add(time.Hour)}, all...)
	page, err := c.reader.Browse(c.Context(), journal.BrowseRequest{Limit: 10, Before: at, To: sorted[0].CreatedAt.Add(time.Hour), From: sorted[6].CreatedAt})
	c.must("Browse", err)
	want(c, "sagas before the third", len(page), 4)
	page, err = c.reader.Browse(c.Context(), journal.BrowseRequest{
		Limit: 10, Before: at, To: sorted[0].CreatedAt.Add(time.Hour), From: sorted[6].CreatedAt, OldestFirst: true, Statuses: []journal.Status{journal.Running},
	})
	c.must("Browse", err)
	want(c, "sagas after the third", len(page), 2)
}

func browseByStatus(c *check) {
	of := map[journal.Status]journal.Record{
		journal.Running:      c.startOwned(),
		journal.Compensating: c.append(c.startOwned(), journal.Write{Status: journal.Compensating, Cause: &failed}),
		journal.Stuck:        makeStuck(c),
		journal.Completed:    finishAs(journal.Completed)(c),
		journal.Compensated:  finishAs(journal.Compensated)(c),
		journal.Abandoned:    c.change(makeStuck(c), journal.Change{Status: journal.Abandoned, Keep: keep}),
	}
	var all []journal.Record
	for status, r := range of {
		c.wantList("the sagas that are "+status.String(), journal.BrowseRequest{Statuses: []journal.Status{status, status}}, r)
		all = append(all, r)
	}
	c.wantList("all sagas", journal.BrowseRequest{}, all...)
	c.wantList("unfinished sagas", journal.BrowseRequest{Statuses: []journal.Status{journal.Stuck, journal.Running, journal.Compensating}},
		of[journal.Running], of[journal.Compensating], of[journal.Stuck])
	c.wantList("a finished and an unfinished status", journal.BrowseRequest{Statuses: []journal.Status{journal.Completed, journal.Running}},
		of[journal.Running], of[journal.Completed])
}

func browseInAWindow(c *check) {
	var all []journal.Record
	for len(all) < 5 {
		r := finishAs(journal.Completed)(c)
		c.eventually("a later time", func() bool { return c.read(r.ID).Now.Sub(r.CreatedAt) >= time.Millisecond })
		all = append(all, r, c.startOwned())
		c.eventually("a later time", func() bool { return c.read(r.ID).Now.Sub(all[len(all)-1].CreatedAt) >= time.Millisecond })
	}
	window := journal.BrowseRequest{From: all[1].CreatedAt, To: all[4].CreatedAt}
	c.wantList("a window, with its beginning and without its end", window, all[1], all[2], all[3])
	window.Statuses = []journal.Status{journal.Running}
	c.wantList("running sagas of a window", window, all[1], all[3])
	c.wantList("running sagas from a time on", journal.BrowseRequest{Statuses: window.Statuses, From: all[2].CreatedAt}, all[3], all[5])
	c.wantList("running sagas up to a time", journal.BrowseRequest{Statuses: window.Statuses, To: all[2].CreatedAt}, all[1])
	c.wantList("all sagas from a time on", journal.BrowseRequest{From: all[4].CreatedAt}, all[4], all[5])
	c.wantList("all sagas up to a time", journal.BrowseRequest{To: all[2].CreatedAt}, all[0], all[1])
	far := all[5].CreatedAt.Add(2 * journal.BrowseWindow)
	c.wantList("the hour before a time", journal.BrowseRequest{To: far})
	window.To = far
	c.wantList("running sagas up to a late time", window, all[1], all[3], all[5])
}

func browseByName(c *check) {
	req := request(c.heartbeat(long))
	req.Name, req.ID = "returns", journal.IDOf(req.Scope, "returns", req.Key)
	other, _, err := c.journal.Start(c.Context(), req)
	c.must("Start", err)
	one, two := c.startOwned(), finishAs(journal.Completed)(c)
	c.wantList("sagas of a name", journal.BrowseRequest{Name: "checkout"}, one, two)
	c.wantList("running sagas of a name", journal.BrowseRequest{Name: "returns", Statuses: []journal.Status{journal.Running}}, other)
	c.wantList("sagas of a name that none has", journal.BrowseRequest{Name: "check%"})
}

func browseByStep(c *check) {
	on := func(step, detail string) journal.Record {
		r := c.append(c.startOwned(), journal.Write{Status: journal.Compensating, Cause: &failed})
		return c.append(r, journal.Write{Status: journal.Stuck, StuckOn: &journal.Failure{Reason: journal.ReasonStep, Step: step, Undo: true, Detail: detail}})
	}
	var same []journal.Record
	for range 4 {
		same = append(same, on("a.b", "x"))
		on("c.d", "not a.b")
	}
	longer := on("a.b[1]", "x")
	c.change(on("a.b", "x"), journal.Change{Status: journal.Compensating}) // it is stuck no more
	c.startOwned()
	c.wantList("sagas that are stuck on a step", journal.BrowseRequest{StuckOn: "a.b"}, same...)
	c.wantList("sagas that are stuck on another step", journal.BrowseRequest{StuckOn: "a.b[1]", Statuses: []journal.Status{journal.Running, journal.Stuck}}, longer)
	c.wantList("sagas that are stuck on no such step", journal.BrowseRequest{StuckOn: "a"})
	c.wantList("sagas that are stuck on a step of another saga", journal.BrowseRequest{StuckOn: "a.b", Name: "returns"})
}

func browseHidesContent(c *check) {
	for _, r := range startMany(c) {
		for _, statuses := range [][]journal.Status{nil, {c.read(r.ID).Status}} {
			page, err := c.reader.Browse(c.Context(), journal.BrowseRequest{Statuses: statuses, Limit: 100})
			c.must("Browse", err)
			i := slices.IndexFunc(page, func(of journal.Record) bool { return of.ID == r.ID })
			if i < 0 {
				c.Fatalf("saga %v is not in the list", r.ID)
			}
			c.wantSame("the listed saga", page[i], toListed(c.read(r.ID)))
		}
	}
}
