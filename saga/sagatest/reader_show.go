package sagatest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

var showRules = []rule{
	{"show: a saga without its content", showHidesContent},
	{"plans: as they were stored, by name and version", plansAreSorted},
	{"stats: those of the journal", statsAreTheJournals},
	{"estimate: the lag of the sweep", estimateTellsTheLag},
	{"reader: bad requests are refused", badRequestsAreRefused},
	{"reader: a done context", readerHeedsContext},
}

// toShown returns r as people see it.
func toShown(r journal.Record) journal.Record {
	r.Input, r.InputHash, r.Trace, r.Result = nil, [32]byte{}, "", nil
	r.Entries = slices.Clone(r.Entries)
	for i := range r.Entries {
		r.Entries[i].Result, r.Entries[i].Body = nil, nil
	}
	for _, f := range []**journal.Failure{&r.Cause, &r.StuckOn, &r.Deferred} {
		if *f != nil {
			bare := **f
			bare.Body = nil
			*f = &bare
		}
	}
	return r
}

// toListed returns r as a list has it.
func toListed(r journal.Record) journal.Record {
	r = toShown(r)
	r.Scope, r.Key, r.Entries = "", childkey.Key{}, nil
	return r
}

// startMany returns sagas in many situations, all with content to hide.
func startMany(c *check) []journal.Record {
	refused := journal.Entry{Step: "c.d", Outcome: retry.Rejected, Attempts: 2, Status: 402, Code: "declined", Detail: "no money", Body: []byte(`{"secret":1}`)}
	traced := request(c.heartbeat(long))
	traced.Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	running, _, err := c.journal.Start(c.Context(), traced)
	c.must("Start", err)
	running = c.append(running, journal.Write{Entries: []journal.Entry{ok("a.b"), refused}})
	deferred := c.startOwned()
	c.append(deferred, journal.Write{Defer: &failed})
	all := []journal.Record{running, c.startUnowned(), c.start(journal.EngineID{}), c.read(deferred.ID), makeStuck(c)}
	for _, status := range []journal.Status{journal.Completed, journal.Compensated} {
		all = append(all, finishAs(status)(c))
	}
	return append(all, c.change(makeStuck(c), journal.Change{Status: journal.Abandoned, Keep: keep}))
}

func showHidesContent(c *check) {
	for _, r := range startMany(c) {
		got, err := c.reader.Show(c.Context(), r.ID)
		c.must("Show", err)
		c.wantSame("the shown saga", got, toShown(c.read(r.ID)))
		c.wantUnchanged(r)
	}
	_, err := c.reader.Show(c.Context(), request(newEngine()).ID)
	c.wantErr("Show of a saga that is missing", err, journal.ErrNotFound)
}

func plansAreSorted(c *check) {
	var stored []journal.PlanRecord
	for _, name := range []string{"returns", "Checkout", "checkout"} {
		for _, version := range []int{10, 2} {
			plan := journal.PlanRecord{Name: name, Version: version, Hash: planOf(fmt.Sprint(name, version)), Lines: []string{"a.b POST /", name}}
			_, err := c.journal.Plan(c.Context(), plan)
			c.must("Plan", err)
			stored = append(stored, plan)
		}
	}
	slices.SortFunc(stored, func(a, b journal.PlanRecord) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	plans, err := c.reader.Plans(c.Context())
	c.must("Plans", err)
	want(c, "all plans", fmt.Sprint(plans), fmt.Sprint(stored))
	one, err := c.reader.Plan(c.Context(), "checkout", 10)
	c.must("Plan", err)
	want(c, "one plan", fmt.Sprint(one), fmt.Sprint(stored[3]))
	for _, version := range []int{0, 3} {
		_, err := c.reader.Plan(c.Context(), "checkout", version)
		c.wantErr("a plan that is missing", err, journal.ErrNotFound)
	}
}

func statsAreTheJournals(c *check) {
	startMany(c)
	got, err := c.reader.Stats(c.Context())
	c.must("Stats of the reader", err)
	of, err := c.journal.Stats(c.Context())
	c.must("Stats of the journal", err)
	if got.OldestUnfinished <= 0 && of.OldestUnfinished > 0 {
		c.Fatalf("OldestUnfinished = %v, want about %v", got.OldestUnfinished, of.OldestUnfinished)
	}
	if got.OldestStuck <= 0 && of.OldestStuck > 0 {
		c.Fatalf("OldestStuck = %v, want about %v", got.OldestStuck, of.OldestStuck)
	}
	got.OldestUnfinished, of.OldestUnfinished = 0, 0
	got.OldestStuck, of.OldestStuck = 0, 0
	want(c, "Stats", fmt.Sprint(got), fmt.Sprint(of))
	want(c, "stuck sagas", got.ByStatus[journal.Stuck], 1)
}

func estimateTellsTheLag(c *check) {
	finishAs(journal.Completed)(c)
	e, err := c.reader.Estimate(c.Context())
	c.must("Estimate", err)
	want(c, "lag without a saga to sweep", e.SweepLag, 0)
	if e.Sagas > 1 || e.Bytes < 0 {
		c.Fatalf("Estimate = %+v, want at most 1 saga", e)
	}
	r := c.append(c.startOwned(), journal.Write{Status: journal.Completed, Keep: gone})
	c.eventually("the lag of the sweep", func() bool {
		e, err = c.reader.Estimate(c.Context())
		c.must("Estimate", err)
		return e.SweepLag >= time.Millisecond
	})
	if most := c.read(r.ID).Now.Sub(r.ExpiresAt) + time.Second; e.SweepLag > most {
		c.Fatalf("SweepLag = %v, want at most %v", e.SweepLag, most)
	}
}

func badRequestsAreRefused(c *check) {
	now := c.startOwned().CreatedAt
	for name, req := range map[string]journal.BrowseRequest{
		"no limit":                   {},
		"a negative limit":           {Limit: -1},
		"the status 0":               {Limit: 1, Statuses: []journal.Status{journal.Running, 0}},
		"a status that is none":      {Limit: 1, Statuses: []journal.Status{journal.Abandoned + 1}},
		"an empty window":            {Limit: 1, From: now, To: now},
		"a window backwards":         {Limit: 1, From: now.Add(time.Second), To: now},
		"a step of a running saga":   {Limit: 1, Statuses: []journal.Status{journal.Running}, StuckOn: "a.b"},
		"a name that is not text":    {Limit: 1, Name: "\xff"},
		"a name with a NUL":          {Limit: 1, Statuses: []journal.Status{journal.Running}, Name: "x\x00"},
		"a step that is not text":    {Limit: 1, StuckOn: "\xff"},
		"no limit, of what is stuck": {StuckOn: "a.b"},
		"an order of finished sagas": {Limit: 1, OldestFirst: true},
	} {
		_, err := c.reader.Browse(c.Context(), req)
		c.wantErr("Browse with "+name, err, journal.ErrRefused)
	}
	for name, req := range map[string]journal.AuditRequest{
		"no limit": {}, "a negative place": {Limit: 1, Before: -1}, "an actor that is not text": {Limit: 1, Actor: "\x00"},
	} {
		_, err := c.reader.AuditPage(c.Context(), req)
		c.wantErr("AuditPage with "+name, err, journal.ErrRefused)
	}
}

func readerHeedsContext(c *check) {
	ctx := c.doneContext()
	r := c.startOwned()
	for name, call := range map[string]func(ctx context.Context) error{
		"Show": func(ctx context.Context) error { _, err := c.reader.Show(ctx, r.ID); return err },
		"Browse": func(ctx context.Context) error {
			_, err := c.reader.Browse(ctx, journal.BrowseRequest{Limit: 1})
			return err
		},
		"Plan":     func(ctx context.Context) error { _, err := c.reader.Plan(ctx, "n", 1); return err },
		"Plans":    func(ctx context.Context) error { _, err := c.reader.Plans(ctx); return err },
		"Stats":    func(ctx context.Context) error { _, err := c.reader.Stats(ctx); return err },
		"Estimate": func(ctx context.Context) error { _, err := c.reader.Estimate(ctx); return err },
		"AuditPage": func(ctx context.Context) error {
			_, err := c.reader.AuditPage(ctx, journal.AuditRequest{Limit: 1})
			return err
		},
	} {
		c.wantErr(name+" with a done context", call(ctx), context.Canceled)
	}
}
