package sagatest

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

var changeRules = []rule{
	{"change: it takes the saga from its owner, and is in the audit log", changeIsRecorded},
	{"change: it fences off nobody where no engine had the saga", changeBeforeTheFirstOwner},
	{"change: not of a saga that moved on", changeComparesTheRevision},
	{"change: it ends and resumes", changeEndsAndResumes},
	{"change: it wakes what waits, and takes it from nobody", changeWakes},
	{"change: it wakes what has no owner", changeWakesUnowned},
	{"change: a wake moves the revision, and the owner need not know", changeWakesAtARevision},
	{"change: another plan, and nothing else", changeThePlan},
	{"change: another plan wakes what sleeps, and not what has not begun", changeThePlanOfWhatWaits},
	{"audit: the youngest first, as many as asked for", auditInOrder},
}

func changeIsRecorded(c *check) {
	r := makeStuck(c)
	forced := journal.Entry{Step: "a.b", Undo: true, Outcome: retry.Completed, Forced: "ann"}
	got := c.change(r, journal.Change{Status: journal.Compensating, Entries: []journal.Entry{forced}, Deadline: keep, Cancel: true})
	expect := r
	expect.Status, expect.Engine, expect.Fence, expect.Revision = journal.Compensating, journal.EngineID{}, r.Fence+1, r.Revision+1
	expect.Entries, expect.StuckOn, expect.FinishedAt, expect.Cancel = []journal.Entry{ok("a.b"), forced}, nil, time.Time{}, true
	expect.ResumedAt, expect.WakeAt, expect.DeadlineAt = got.ResumedAt, got.ResumedAt, got.ResumedAt.Add(keep)
	c.wantSame("the changed saga", got, expect)
	c.wantUnchanged(got)
	c.wantDuring("ResumedAt", got.ResumedAt, r, got)
	c.wantErr("Append by the owner before", c.journal.Append(c.Context(), owner(r), journal.Write{Revision: got.Revision + 1}), journal.ErrLeaseLost)

	log, err := c.journal.Reader().AuditPage(c.Context(), journal.AuditRequest{ID: r.ID, Limit: 10})
	c.must("AuditPage", err)
	want(c, "lines in the audit log", len(log), 1)
	line := log[0]
	want(c, "its audit", line.Audit, someone)
	want(c, "From", line.From, journal.Stuck)
	want(c, "To", line.To, journal.Compensating)
	want(c, "Fence", line.Fence, got.Fence)
	want(c, "ID", line.ID, r.ID)
	c.wantDuring("At", line.At, r, got)
	want(c, "claimed", len(c.claim(c.heartbeat(long), 10)), 1)
}

// An engine that claims a saga at fence 1 relies on the fact that nothing was sent for the saga.
func changeBeforeTheFirstOwner(c *check) {
	r := c.start(journal.EngineID{})
	got := c.change(r, journal.Change{Status: journal.Running, Cancel: true})
	expect := r
	expect.Revision, expect.Cancel, expect.ResumedAt, expect.WakeAt = r.Revision+1, true, got.ResumedAt, got.ResumedAt
	c.wantSame("the changed saga", got, expect)
	c.wantUnchanged(got)
	log, err := c.journal.Reader().AuditPage(c.Context(), journal.AuditRequest{ID: r.ID, Limit: 10})
	c.must("AuditPage", err)
	want(c, "lines in the audit log", len(log), 1)
	want(c, "Fence in the audit log", log[0].Fence, 0)
	claimed := c.claim(c.heartbeat(long), 10)
	want(c, "claimed", len(claimed), 1)
	want(c, "Fence of the first owner", claimed[0].Fence, 1)
	got = c.change(claimed[0], journal.Change{Status: journal.Running})
	want(c, "Fence after a change of what the first owner has", got.Fence, 2)
}

func changeComparesTheRevision(c *check) {
	for _, s := range situations {
		r := s.put(c)
		for _, revision := range []int64{r.Revision - 1, r.Revision + 1, 0} {
			got, won, err := c.journal.Change(c.Context(), journal.Change{ID: r.ID, Revision: revision, Status: journal.Abandoned, By: someone})
			c.must("Change", err)
			want(c, "Change at another revision: won", won, false)
			c.wantSame("Change at another revision", got, r)
		}
		c.wantUnchanged(r)
		log, err := c.journal.Reader().AuditPage(c.Context(), journal.AuditRequest{ID: r.ID, Limit: 10})
		c.must("AuditPage", err)
		for _, line := range log {
			want(c, "Fence in the audit log", line.Fence <= r.Fence, true)
		}
		want(c, "lines in the audit log of a saga that is "+s.name, len(log) <= 1, true)
	}
	_, won, err := c.journal.Change(c.Context(), journal.Change{ID: journal.ID{1}, Status: journal.Abandoned, By: someone})
	c.wantErr("Change of an absent saga", err, journal.ErrNotFound)
	want(c, "Change of an absent saga: won", won, false)
	r := makeStuck(c)
	wins := make(chan bool, 8)
	runTogether(cap(wins), func(int) {
		_, won, err := c.journal.Change(c.Context(), journal.Change{ID: r.ID, Revision: r.Revision, Status: journal.Compensating, By: someone})
		wins <- won && err == nil
	})
	n := 0
	for range cap(wins) {
		if <-wins {
			n++
		}
	}
	want(c, "winners of 8", n, 1)
}

func changeEndsAndResumes(c *check) {
	r := c.startOwned()
	got := c.change(r, journal.Change{Status: journal.Running})
	c.wantDuring("WakeAt", got.WakeAt, r, c.read(r.ID))
	want(c, "Clean of a saga that was executed", got.Clean, false)
	want(c, "Cancel", got.Cancel, false)
	want(c, "DeadlineAt is kept", got.DeadlineAt.Sub(r.DeadlineAt).Abs() < time.Microsecond, true)
	got = c.change(got, journal.Change{Status: journal.Running, Cancel: true})
	got = c.change(got, journal.Change{Status: journal.Abandoned, Keep: keep})
	want(c, "Cancel stays", got.Cancel, true)
	want(c, "WakeAt of what is over is zero", got.WakeAt.IsZero(), true)
	if d := got.ExpiresAt.Sub(got.FinishedAt); got.FinishedAt.IsZero() || (d-keep).Abs() > time.Second {
		c.Fatalf("ExpiresAt - FinishedAt = %v, want %v", d, keep)
	}
}

func changeWakes(c *check) {
	waiting := journal.Entry{Step: "a.b", Outcome: retry.NotSent, Pending: true, Attempts: 2}
	later := waiting
	later.RetryAt = time.Now().Add(long).UTC()
	r := c.startOwned()
	r = c.append(r, journal.Write{Entries: []journal.Entry{later}})
	expect := r
	expect.Entries, expect.Revision, expect.Wakes = []journal.Entry{waiting}, r.Revision+1, 1
	got := c.change(r, journal.Change{Wake: true, Entries: []journal.Entry{waiting}})
	c.wantSame("the woken saga", got, expect)
	c.wantUnchanged(expect)
	log, err := c.journal.Reader().AuditPage(c.Context(), journal.AuditRequest{ID: r.ID, Limit: 10})
	c.must("AuditPage", err)
	want(c, "lines in the audit log", len(log), 1)
	want(c, "From", log[0].From, journal.Running)
	want(c, "To", log[0].To, journal.Running)
	want(c, "Fence in the audit log", log[0].Fence, r.Fence)
	c.wantDuring("At", log[0].At, r, got)
	want(c, "claimed of what has an owner", len(c.claim(c.heartbeat(long), 10)), 0)

	for range 2 { // the owner does not know yet: its next write, and a repeat, are at its next revision
		c.must("Append by the owner", c.journal.Append(c.Context(), owner(r), journal.Write{Revision: r.Revision + 1, Entries: []journal.Entry{ok("c.d")}}))
	}
	expect.Revision++
	expect.Entries = append(expect.Entries, ok("c.d"))
	c.wantUnchanged(expect)

	// The owner gives the saga up before it knows. The saga is then due, once.
	r = c.append(expect, journal.Write{WakeAt: r.Now.Add(long)})
	want(c, "WakeAt of what was woken is past", r.WakeAt.After(r.Now), false)
	claimed := c.claim(c.heartbeat(long), 10)
	want(c, "claimed of what was woken and given up", len(claimed), 1)
	r = c.append(claimed[0], journal.Write{WakeAt: r.Now.Add(long)})
	want(c, "WakeAt of what was not woken again is past", r.WakeAt.After(r.Now), true)

	for _, s := range situations {
		r := s.put(c)
		if r.Status.Active() {
			continue
		}
		got, won, err := c.journal.Change(c.Context(), journal.Change{ID: r.ID, Revision: r.Revision, Wake: true, By: someone})
		c.must("Change", err)
		want(c, "woken: "+s.name, won, false)
		c.wantSame("the saga that is not woken", got, r)
		c.wantUnchanged(r)
	}
}

func changeWakesUnowned(c *check) {
	r := c.startOwned()
	r = c.append(r, journal.Write{Entries: []journal.Entry{ok("a.b")}, WakeAt: r.Now.Add(long)})
	c.must("Leave", c.journal.Leave(c.Context(), owner(r).Engine))
	engine := c.heartbeat(long)
	want(c, "claimed before its time", len(c.claim(engine, 10)), 0)
	got := c.change(r, journal.Change{Wake: true})
	c.wantDuring("WakeAt", got.WakeAt, r, got)
	want(c, "Fence", got.Fence, r.Fence)
	want(c, "Revision", got.Revision, r.Revision+1)
	claimed := c.claim(engine, 10)
	want(c, "claimed", len(claimed), 1)
	want(c, "Fence of its next owner", claimed[0].Fence, r.Fence+1)
	want(c, "entries that the next owner finds", len(claimed[0].Entries), 1)
}

// A decision on entries that a wake has changed since is refused. An owner that does not know of the
// wakes writes on, and a repeat of its write finds the first one whatever came between.
func changeWakesAtARevision(c *check) {
	waiting := journal.Entry{Step: "a.b", Outcome: retry.NotSent, Pending: true, Attempts: 2}
	later := waiting
	later.RetryAt = time.Now().Add(long).UTC()
	r := c.append(c.startOwned(), journal.Write{Entries: []journal.Entry{later}})
	o, revision := owner(r), r.Revision
	wake := func() {
		c.Helper()
		was := c.read(r.ID)
		expect := was
		expect.Revision, expect.Wakes, expect.Entries = was.Revision+1, was.Wakes+1, slices.Clone(was.Entries)
		expect.Entries[0] = waiting
		got := c.change(was, journal.Change{Wake: true, Entries: []journal.Entry{waiting}})
		expect.WakeAt = got.WakeAt // of a saga that the owner gave up
		c.wantSame("the woken saga", got, expect)
		for _, stale := range []journal.Change{{Wake: true, Entries: []journal.Entry{later}}, {Status: journal.Running, Entries: []journal.Entry{later}}} {
			stale.ID, stale.Revision, stale.By = was.ID, was.Revision, someone
			_, won, err := c.journal.Change(c.Context(), stale)
			c.must("Change", err)
			want(c, "Change at the revision before the wake: won", won, false)
			c.wantUnchanged(expect)
		}
	}
	large := ok("e.f")
	large.Result = bytes.Repeat([]byte("1"), 64<<10)
	for i, w := range []journal.Write{
		{Entries: []journal.Entry{ok("c.d")}},
		{Entries: []journal.Entry{large}},
		{Entries: []journal.Entry{later}, WakeAt: r.Now.Add(long)},
	} {
		for range i {
			wake()
		}
		revision++
		w.Revision = revision
		c.wantErr("Append of the revision of a wake", c.journal.Append(c.Context(), o, journal.Write{Revision: revision + 1}), journal.ErrLeaseLost)
		before := c.read(r.ID)
		c.must("Append", c.journal.Append(c.Context(), o, w))
		now := c.read(r.ID)
		want(c, "Revision after a write", now.Revision, before.Revision+1)
		want(c, "Wakes after a write", now.Wakes, before.Wakes)
		for range 2 {
			c.must("Append repeated", c.journal.Append(c.Context(), o, w))
			c.wantUnchanged(now)
			wake()
			now = c.read(r.ID)
		}
	}
	claimed := c.claim(c.heartbeat(long), 10)
	want(c, "claimed of what was woken and given up", len(claimed), 1)
	want(c, "Wakes after a claim", claimed[0].Wakes, 0)
	want(c, "the large result", len(claimed[0].Entries[2].Result), len(large.Result))
	now := c.append(claimed[0], journal.Write{Entries: []journal.Entry{ok("g.h")}})
	r = now
	wake()
	got := c.change(c.read(r.ID), journal.Change{Status: journal.Running})
	want(c, "Wakes after a verb that takes the saga", got.Wakes, 0)
}

func auditInOrder(c *check) {
	r, other := c.startOwned(), c.startOwned()
	for range 3 {
		r = c.change(r, journal.Change{Status: journal.Running})
	}
	c.change(other, journal.Change{Status: journal.Running})
	log, err := c.journal.Reader().AuditPage(c.Context(), journal.AuditRequest{ID: r.ID, Limit: 2})
	c.must("AuditPage", err)
	want(c, "lines", len(log), 2)
	want(c, "fence of the youngest", log[0].Fence, 4)
	want(c, "fence of the next", log[1].Fence, 3)
	log, err = c.journal.Reader().AuditPage(c.Context(), journal.AuditRequest{Limit: 10})
	c.must("AuditPage", err)
	want(c, "lines of all sagas", len(log), 4)
}

var listRules = []rule{
	{"list: the sagas of an engine, without what is large", listOfAnEngine},
	{"read: outlines of those that are there, as they are", readOutlines},
	{"list: pages miss nothing and repeat nothing", listPages},
	{"stats: they count", statsCount},
	{"stats: the age of the oldest stuck saga", statsTellTheOldestStuck},
}

// list returns the IDs of the sagas that match.
func (c *check) list(req journal.ListRequest) map[journal.ID]bool {
	c.Helper()
	req.Limit = 100
	records, err := c.journal.List(c.Context(), req)
	c.must("List", err)
	ids := make(map[journal.ID]bool)
	for _, r := range records {
		ids[r.ID] = true
		if r.Input != nil || r.Result != nil || len(r.Entries) > 0 && r.Entries[0].Result != nil {
			c.Fatalf("listed saga has its input or results")
		}
	}
	return ids
}

func listOfAnEngine(c *check) {
	for _, s := range situations {
		r := s.put(c)
		if r.Engine.IsZero() {
			continue
		}
		listed, err := c.journal.List(c.Context(), journal.ListRequest{Engine: r.Engine, Limit: 100})
		c.must("List", err)
		if !r.Status.Active() {
			want(c, "listed sagas of an engine whose saga is "+r.Status.String(), len(listed), 0)
			continue
		}
		want(c, "listed sagas of the engine", len(listed), 1)
		expect := c.read(r.ID)
		expect.Input = nil
		for i := range expect.Entries {
			expect.Entries[i].Result = nil
		}
		c.wantSame("the listed saga", listed[0], expect)
		if r.Status == journal.Running {
			c.append(r, journal.Write{WakeAt: r.Now.Add(long)})
			want(c, "listed sagas of an engine that gave its saga up", len(c.list(journal.ListRequest{Engine: r.Engine})), 0)
		}
	}
	_, err := c.journal.List(c.Context(), journal.ListRequest{Limit: 1})
	want(c, "a list of no engine is refused", err != nil, true)
}

func readOutlines(c *check) {
	ids, sagas := []journal.ID{{1}}, make(map[journal.ID]journal.Record)
	for _, s := range situations {
		r := s.put(c)
		ids, sagas[r.ID] = append(ids, r.ID, r.ID), r
	}
	asleep := c.startOwned()
	asleep = c.append(asleep, journal.Write{WakeAt: asleep.Now.Add(long)})
	asleep = c.change(asleep, journal.Change{Wake: true})
	ids, sagas[asleep.ID] = append(ids, asleep.ID), asleep
	c.startOwned() // nobody asks for it
	found, err := c.journal.ReadOutlines(c.Context(), ids)
	c.must("ReadOutlines", err)
	want(c, "outlines", len(found), len(sagas))
	outline := func(r journal.Record) journal.Record {
		return journal.Record{
			ID: r.ID, Name: r.Name, Version: r.Version, Plan: r.Plan, Status: r.Status, Engine: r.Engine, Fence: r.Fence,
			Revision: r.Revision, Wakes: r.Wakes, Times: r.Times, Corrupt: r.Corrupt,
		}
	}
	for _, r := range found {
		c.wantSame("the outline", outline(r), outline(c.read(r.ID)))
		c.wantDuring("Now", r.Now, asleep, c.read(r.ID))
		want(c, "Input and results are left out", r.Input == nil && r.Result == nil, true)
		delete(sagas, r.ID)
	}
	want(c, "sagas without an outline", len(sagas), 0)
	found, err = c.journal.ReadOutlines(c.Context(), nil)
	c.must("ReadOutlines", err)
	want(c, "outlines of none", len(found), 0)
}

func listPages(c *check) {
	engine := c.heartbeat(long)
	for range 7 {
		c.start(engine)
	}
	seen := make(map[journal.ID]bool)
	req := journal.ListRequest{Engine: engine, Limit: 3}
	for _, n := range []int{3, 3, 1, 0} {
		page, err := c.journal.List(c.Context(), req)
		c.must("List", err)
		want(c, "sagas on the page", len(page), n)
		for _, r := range page {
			want(c, "listed before", seen[r.ID], false)
			seen[r.ID] = true
			req.After = journal.Cursor{CreatedAt: r.CreatedAt, ID: r.ID}
		}
	}
}

func statsCount(c *check) {
	for _, s := range situations {
		s.put(c)
	}
	unowned := c.startUnowned()
	asleep := c.startOwned()
	c.append(asleep, journal.Write{WakeAt: asleep.Now.Add(long)})
	c.eventually("some age", func() bool {
		st, err := c.journal.Stats(c.Context())
		c.must("Stats", err)
		return st.OldestUnfinished > time.Millisecond
	})
	st, err := c.journal.Stats(c.Context())
	c.must("Stats", err)
	for status, n := range map[journal.Status]int64{journal.Running: 3, journal.Compensating: 1, journal.Stuck: 1, journal.Completed: 1, journal.Compensated: 1, journal.Abandoned: 1} {
		want(c, "sagas that are "+status.String(), st.ByStatus[status], n)
	}
	want(c, "unowned sagas", st.Unowned, 1)
	want(c, "unowned sagas of the plan", st.UnownedOf[unowned.Plan], 1)
	want(c, "plans with unowned sagas", len(st.UnownedOf), 1)
	want(c, "sagas asleep", st.Asleep, 1)
	c.start(journal.EngineID{})
	st, err = c.journal.Stats(c.Context())
	c.must("Stats", err)
	want(c, "unowned sagas, with one for nobody", st.UnownedOf[unowned.Plan], 2)
}

func statsTellTheOldestStuck(c *check) {
	c.startOwned()
	st := c.statsWhen("some age of a saga that is not stuck", func(st journal.Stats) bool { return st.OldestUnfinished > time.Millisecond })
	want(c, "age of the oldest stuck saga, of none", st.OldestStuck, 0)
	first := makeStuck(c)
	c.statsWhen("some age of a stuck saga", func(st journal.Stats) bool { return st.OldestStuck > time.Millisecond })
	makeStuck(c)
	r := c.read(first.ID)
	age := r.Now.Sub(r.CreatedAt)
	st = c.statsWhen("an age", func(journal.Stats) bool { return true })
	if st.OldestStuck >= st.OldestUnfinished {
		c.Fatalf("OldestStuck = %v, want less than OldestUnfinished, which is %v", st.OldestStuck, st.OldestUnfinished)
	}
	if st.OldestStuck < age {
		c.Fatalf("OldestStuck = %v, want the age of the first stuck saga, at least %v", st.OldestStuck, age)
	}
}

// statsWhen returns the first stats that are as wanted.
func (c *check) statsWhen(what string, wanted func(journal.Stats) bool) (st journal.Stats) {
	c.eventually(what, func() (ok bool) {
		var err error
		st, err = c.journal.Stats(c.Context())
		c.must("Stats", err)
		return wanted(st)
	})
	return st
}

var sweepRules = []rule{
	{"sweep: what is final and past its time, and nothing else", sweepSpares},
	{"sweep: no more than asked for", sweepLimit},
}

func sweepSpares(c *check) {
	var kept []journal.Record
	for _, s := range situations {
		kept = append(kept, s.put(c))
	}
	old := c.startOwned()
	old = c.append(old, journal.Write{Status: journal.Completed, Keep: gone})
	c.eventually("the end of its time", func() bool {
		n, err := c.journal.Sweep(c.Context(), 100)
		c.must("Sweep", err)
		return n == 1
	})
	_, err := c.journal.Read(c.Context(), old.ID)
	c.wantErr("Read of a swept saga", err, journal.ErrNotFound)
	n, err := c.journal.Sweep(c.Context(), 100)
	c.must("Sweep", err)
	want(c, "swept", n, 0)
	for _, r := range kept {
		c.wantUnchanged(r)
	}
	for _, r := range kept[:2] { // their leases were not swept either
		c.append(r, journal.Write{})
		c.must("Heartbeat", c.journal.Heartbeat(c.Context(), r.Engine, long))
	}
}

func sweepLimit(c *check) {
	var last journal.Record
	for range 3 {
		last = c.startOwned()
		c.append(last, journal.Write{Status: journal.Completed, Keep: gone})
	}
	c.eventually("the end of the time that they are kept", func() bool {
		r := c.read(last.ID)
		return r.Now.Sub(r.FinishedAt) > time.Millisecond
	})
	swept := 0
	c.eventually("the sweep of all", func() bool {
		n, err := c.journal.Sweep(c.Context(), 2)
		c.must("Sweep", err)
		want(c, "swept more than asked for", n > 2, false)
		swept += n
		return swept == 3
	})
}

var contextRules = []rule{
	{"context: already done, nothing happens", doneContextDoesNothing},
}

func doneContextDoesNothing(c *check) {
	ctx := c.doneContext()
	live, unowned, halted := c.startOwned(), c.startUnowned(), makeStuck(c)
	engine := c.heartbeat(long)
	absent := request(engine)
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"Plan", func() error { _, err := c.journal.Plan(ctx, journal.PlanRecord{Name: "n", Version: 1}); return err }},
		{"ReadPlan", func() error { _, err := c.journal.ReadPlan(ctx, "n", 1); return err }},
		{"Heartbeat", func() error { return c.journal.Heartbeat(ctx, newEngine(), long) }},
		{"Leave", func() error { return c.journal.Leave(ctx, live.Engine) }},
		{"Start", func() error { _, _, err := c.journal.Start(ctx, absent); return err }},
		{"Append", func() error {
			return c.journal.Append(ctx, owner(live), journal.Write{Revision: 2, Entries: []journal.Entry{ok("a.b")}})
		}},
		{"Claim", func() error {
			_, err := c.journal.Claim(ctx, journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{planOf("checkout")}, Limit: 1})
			return err
		}},
		{"Read", func() error { _, err := c.journal.Read(ctx, live.ID); return err }},
		{"ReadOutlines", func() error { _, err := c.journal.ReadOutlines(ctx, []journal.ID{live.ID, unowned.ID}); return err }},
		{"Send", func() error {
			return c.journal.Send(ctx, journal.Signal{ID: live.ID, Name: name, Value: value}, journal.Audit{})
		}},
		{"EndWait", func() error { _, err := c.journal.EndWait(ctx, owner(live), name); return err }},
		{"Signals", func() error { _, err := c.journal.Signals(ctx, []journal.ID{live.ID}); return err }},
		{"WakeSignalled", func() error { _, err := c.journal.WakeSignalled(ctx); return err }},
		{"Sweep", func() error { _, err := c.journal.Sweep(ctx, 1); return err }},
		{"Stats", func() error { _, err := c.journal.Stats(ctx); return err }},
		{"List", func() error { _, err := c.journal.List(ctx, journal.ListRequest{Engine: engine, Limit: 1}); return err }},
		{"Change", func() error {
			_, _, err := c.journal.Change(ctx, journal.Change{ID: halted.ID, Revision: halted.Revision, Status: journal.Abandoned, By: someone})
			return err
		}},
		{"AuditPage", func() error {
			_, err := c.journal.Reader().AuditPage(ctx, journal.AuditRequest{Limit: 1})
			return err
		}},
	} {
		c.wantErr(call.name+" with a done context", call.do(), context.Canceled)
	}
	_, err := c.journal.Read(c.Context(), absent.ID)
	c.wantErr("Read of a saga that was not started", err, journal.ErrNotFound)
	for _, r := range []journal.Record{live, unowned, halted} {
		c.wantUnchanged(r)
	}
	c.must("Heartbeat of an engine that did not leave", c.journal.Heartbeat(c.Context(), live.Engine, long))
}
