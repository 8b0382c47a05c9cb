package sagatest

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
)

var changeLaws = []law{
	{"change: it takes the saga from its owner, and is in the audit log", changeIsRecorded},
	{"change: it fences off nobody where no engine had the saga", changeBeforeTheFirstOwner},
	{"change: not of a saga that moved on", changeComparesTheRevision},
	{"change: it ends and resumes", changeEndsAndResumes},
	{"change: it wakes what waits, and takes it from nobody", changeWakes},
	{"change: it wakes what nobody drives", changeWakesOrphans},
	{"audit: the youngest first, as many as asked for", auditInOrder},
}

func changeIsRecorded(c *check) {
	r := stuck(c)
	forced := saga.Entry{Step: "a.b", Undo: true, Outcome: retry.Completed, Forced: "ann"}
	got := c.change(r, saga.Change{Status: saga.Compensating, Entries: []saga.Entry{forced}, Deadline: keep, Cancel: true})
	expect := r
	expect.Status, expect.Engine, expect.Fence, expect.Revision = saga.Compensating, saga.EngineID{}, r.Fence+1, r.Revision+1
	expect.Entries, expect.StuckOn, expect.FinishedAt, expect.Cancel = []saga.Entry{ok("a.b"), forced}, nil, time.Time{}, true
	expect.ResumedAt, expect.WakeAt, expect.DeadlineAt = got.ResumedAt, got.ResumedAt, got.ResumedAt.Add(keep)
	c.wantSame("the changed saga", got, expect)
	c.wantUnchanged(got)
	c.wantDuring("ResumedAt", got.ResumedAt, r, got)
	c.wantErr("Append by the owner before", c.journal.Append(c.Context(), owner(r), saga.Write{Revision: got.Revision + 1}), saga.ErrLeaseLost)

	log, err := c.journal.AuditLog(c.Context(), r.ID, 10)
	c.must("AuditLog", err)
	want(c, "lines in the audit log", len(log), 1)
	line := log[0]
	want(c, "its audit", line.Audit, someone)
	want(c, "From", line.From, saga.Stuck)
	want(c, "To", line.To, saga.Compensating)
	want(c, "Fence", line.Fence, got.Fence)
	want(c, "ID", line.ID, r.ID)
	c.wantDuring("At", line.At, r, got)
	want(c, "claimed", len(c.claim(c.beat(long), 10)), 1)
}

// Whoever claims a saga at fence 1 relies on it that nothing was sent for it.
func changeBeforeTheFirstOwner(c *check) {
	r := c.start(saga.EngineID{})
	got := c.change(r, saga.Change{Status: saga.Running, Cancel: true})
	expect := r
	expect.Revision, expect.Cancel, expect.ResumedAt, expect.WakeAt = r.Revision+1, true, got.ResumedAt, got.ResumedAt
	c.wantSame("the changed saga", got, expect)
	c.wantUnchanged(got)
	log, err := c.journal.AuditLog(c.Context(), r.ID, 10)
	c.must("AuditLog", err)
	want(c, "lines in the audit log", len(log), 1)
	want(c, "Fence in the audit log", log[0].Fence, 0)
	claimed := c.claim(c.beat(long), 10)
	want(c, "claimed", len(claimed), 1)
	want(c, "Fence of the first owner", claimed[0].Fence, 1)
	got = c.change(claimed[0], saga.Change{Status: saga.Running})
	want(c, "Fence after a change of what the first owner has", got.Fence, 2)
}

func changeComparesTheRevision(c *check) {
	for _, s := range situations {
		r := s.put(c)
		for _, revision := range []int64{r.Revision - 1, r.Revision + 1, 0} {
			got, won, err := c.journal.Change(c.Context(), saga.Change{ID: r.ID, Revision: revision, Status: saga.Abandoned, By: someone})
			c.must("Change", err)
			want(c, "Change at another revision: won", won, false)
			c.wantSame("Change at another revision", got, r)
		}
		c.wantUnchanged(r)
		log, err := c.journal.AuditLog(c.Context(), r.ID, 10)
		c.must("AuditLog", err)
		for _, line := range log {
			want(c, "Fence in the audit log", line.Fence <= r.Fence, true)
		}
		want(c, "lines in the audit log of a saga that is "+s.name, len(log) <= 1, true)
	}
	_, won, err := c.journal.Change(c.Context(), saga.Change{ID: saga.ID{1}, Status: saga.Abandoned, By: someone})
	c.wantErr("Change of an absent saga", err, saga.ErrNotFound)
	want(c, "Change of an absent saga: won", won, false)
	r := stuck(c)
	wins := make(chan bool, 8)
	together(cap(wins), func(int) {
		_, won, err := c.journal.Change(c.Context(), saga.Change{ID: r.ID, Revision: r.Revision, Status: saga.Compensating, By: someone})
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
	r := c.started()
	got := c.change(r, saga.Change{Status: saga.Running})
	c.wantDuring("WakeAt", got.WakeAt, r, c.read(r.ID))
	want(c, "Clean of a saga that was driven", got.Clean, false)
	want(c, "Cancel", got.Cancel, false)
	want(c, "DeadlineAt is kept", got.DeadlineAt.Sub(r.DeadlineAt).Abs() < time.Microsecond, true)
	got = c.change(got, saga.Change{Status: saga.Running, Cancel: true})
	got = c.change(got, saga.Change{Status: saga.Abandoned, Keep: keep})
	want(c, "Cancel stays", got.Cancel, true)
	want(c, "WakeAt of what is over is zero", got.WakeAt.IsZero(), true)
	if d := got.ExpiresAt.Sub(got.FinishedAt); got.FinishedAt.IsZero() || (d-keep).Abs() > time.Second {
		c.Fatalf("ExpiresAt - FinishedAt = %v, want %v", d, keep)
	}
}

func changeWakes(c *check) {
	waiting := saga.Entry{Step: "a.b", Outcome: retry.NotSent, Pending: true, Tries: 2}
	later := waiting
	later.RetryAt = time.Now().Add(long).UTC()
	r := c.started()
	r = c.append(r, saga.Write{Entries: []saga.Entry{later}})
	expect := r
	expect.Entries = []saga.Entry{waiting}
	got := c.change(r, saga.Change{Wake: true, Entries: []saga.Entry{waiting}})
	c.wantSame("the woken saga", got, expect)
	c.wantUnchanged(expect)
	log, err := c.journal.AuditLog(c.Context(), r.ID, 10)
	c.must("AuditLog", err)
	want(c, "lines in the audit log", len(log), 1)
	want(c, "From", log[0].From, saga.Running)
	want(c, "To", log[0].To, saga.Running)
	want(c, "Fence in the audit log", log[0].Fence, r.Fence)
	c.wantDuring("At", log[0].At, r, got)
	want(c, "claimed of what has an owner", len(c.claim(c.beat(long), 10)), 0)

	for range 2 { // the owner has not heard of it: its next write is at its next revision, also repeated
		c.must("Append by the owner", c.journal.Append(c.Context(), owner(r), saga.Write{Revision: r.Revision + 1, Entries: []saga.Entry{ok("c.d")}}))
	}
	expect.Revision++
	expect.Entries = append(expect.Entries, ok("c.d"))
	c.wantUnchanged(expect)

	for _, s := range situations {
		r := s.put(c)
		if r.Status.Driven() {
			continue
		}
		got, won, err := c.journal.Change(c.Context(), saga.Change{ID: r.ID, Revision: r.Revision, Wake: true, By: someone})
		c.must("Change", err)
		want(c, "woken: "+s.name, won, false)
		c.wantSame("the saga that is not woken", got, r)
		c.wantUnchanged(r)
	}
}

func changeWakesOrphans(c *check) {
	r := c.started()
	r = c.append(r, saga.Write{Entries: []saga.Entry{ok("a.b")}, WakeAt: r.Now.Add(long)})
	c.must("Leave", c.journal.Leave(c.Context(), owner(r).Engine))
	engine := c.beat(long)
	want(c, "claimed before its time", len(c.claim(engine, 10)), 0)
	got := c.change(r, saga.Change{Wake: true})
	c.wantDuring("WakeAt", got.WakeAt, r, got)
	want(c, "Fence", got.Fence, r.Fence)
	want(c, "Revision", got.Revision, r.Revision)
	claimed := c.claim(engine, 10)
	want(c, "claimed", len(claimed), 1)
	want(c, "Fence of its next owner", claimed[0].Fence, r.Fence+1)
	want(c, "entries that the next owner finds", len(claimed[0].Entries), 1)
}

func auditInOrder(c *check) {
	r, other := c.started(), c.started()
	for range 3 {
		r = c.change(r, saga.Change{Status: saga.Running})
	}
	c.change(other, saga.Change{Status: saga.Running})
	log, err := c.journal.AuditLog(c.Context(), r.ID, 2)
	c.must("AuditLog", err)
	want(c, "lines", len(log), 2)
	want(c, "fence of the youngest", log[0].Fence, 4)
	want(c, "fence of the next", log[1].Fence, 3)
	log, err = c.journal.AuditLog(c.Context(), saga.ID{}, 10)
	c.must("AuditLog", err)
	want(c, "lines of all sagas", len(log), 4)
}

var listLaws = []law{
	{"list: what matches, without what is large", listMatches},
	{"list: pages miss nothing and repeat nothing", listPages},
	{"stats: they count", statsCount},
}

// list returns the IDs of what matches.
func (c *check) list(req saga.ListRequest) map[saga.ID]bool {
	c.Helper()
	req.Limit = 100
	records, err := c.journal.List(c.Context(), req)
	c.must("List", err)
	ids := make(map[saga.ID]bool)
	for _, r := range records {
		ids[r.ID] = true
		if r.Input != nil || r.Result != nil || len(r.Entries) > 0 && r.Entries[0].Result != nil {
			c.Fatalf("listed saga has its input or results")
		}
	}
	return ids
}

func listMatches(c *check) {
	all := make(map[saga.Status]saga.Record)
	for _, s := range situations {
		r := s.put(c)
		all[r.Status] = r
	}
	listed := c.list(saga.ListRequest{})
	for status, r := range all {
		want(c, "listed by default: "+status.String(), listed[r.ID], !status.Final())
		only := c.list(saga.ListRequest{Statuses: []saga.Status{status}})
		want(c, "listed as "+status.String(), only[r.ID] && len(only) == 1, true)
		mine := c.list(saga.ListRequest{Engine: r.Engine})
		if !r.Engine.IsZero() {
			want(c, "listed as its engine's: "+status.String(), mine[r.ID], status.Driven())
		}
	}
	want(c, "listed of another name", len(c.list(saga.ListRequest{Name: "other"})), 0)
	want(c, "listed of the name", len(c.list(saga.ListRequest{Name: "checkout"})), 3)
	running := all[saga.Running]
	want(c, "orphans while engines live", len(c.list(saga.ListRequest{Orphans: true})), 0)
	r := c.append(running, saga.Write{WakeAt: running.Now.Add(long)})
	left := c.orphan()
	orphans := c.list(saga.ListRequest{Orphans: true})
	want(c, "orphans", orphans[r.ID] && orphans[left.ID] && len(orphans) == 2, true)
	records, err := c.journal.List(c.Context(), saga.ListRequest{Orphans: true, Limit: 1})
	c.must("List", err)
	expect := c.read(records[0].ID)
	expect.Input = nil
	for i := range expect.Entries {
		expect.Entries[i].Result = nil
	}
	c.wantSame("the listed saga", records[0], expect)
}

func listPages(c *check) {
	engine := c.beat(long)
	for range 7 {
		c.start(engine)
	}
	seen := make(map[saga.ID]bool)
	req := saga.ListRequest{Limit: 3}
	for _, n := range []int{3, 3, 1, 0} {
		page, err := c.journal.List(c.Context(), req)
		c.must("List", err)
		want(c, "sagas on the page", len(page), n)
		for _, r := range page {
			want(c, "listed before", seen[r.ID], false)
			seen[r.ID] = true
			req.After = saga.Cursor{CreatedAt: r.CreatedAt, ID: r.ID}
		}
	}
}

func statsCount(c *check) {
	for _, s := range situations {
		s.put(c)
	}
	orphan := c.orphan()
	asleep := c.started()
	c.append(asleep, saga.Write{WakeAt: asleep.Now.Add(long)})
	c.eventually("some age", func() bool {
		st, err := c.journal.Stats(c.Context())
		c.must("Stats", err)
		return st.OldestUnfinished > time.Millisecond
	})
	st, err := c.journal.Stats(c.Context())
	c.must("Stats", err)
	for status, n := range map[saga.Status]int64{saga.Running: 3, saga.Compensating: 1, saga.Stuck: 1, saga.Completed: 1, saga.Compensated: 1, saga.Abandoned: 1} {
		want(c, "sagas that are "+status.String(), st.ByStatus[status], n)
	}
	want(c, "orphans", st.Orphans, 1)
	want(c, "orphans of the plan", st.OrphansOf[orphan.Plan], 1)
	want(c, "plans with orphans", len(st.OrphansOf), 1)
	want(c, "sagas asleep", st.Asleep, 1)
	c.start(saga.EngineID{})
	st, err = c.journal.Stats(c.Context())
	c.must("Stats", err)
	want(c, "orphans, with one for nobody", st.OrphansOf[orphan.Plan], 2)
}

var sweepLaws = []law{
	{"sweep: what is final and past its time, and nothing else", sweepSpares},
	{"sweep: no more than asked for", sweepLimit},
}

func sweepSpares(c *check) {
	var kept []saga.Record
	for _, s := range situations {
		kept = append(kept, s.put(c))
	}
	old := c.started()
	old = c.append(old, saga.Write{Status: saga.Completed, Keep: gone})
	c.eventually("the end of its time", func() bool {
		n, err := c.journal.Sweep(c.Context(), 100)
		c.must("Sweep", err)
		return n == 1
	})
	_, err := c.journal.Read(c.Context(), old.ID)
	c.wantErr("Read of a swept saga", err, saga.ErrNotFound)
	n, err := c.journal.Sweep(c.Context(), 100)
	c.must("Sweep", err)
	want(c, "swept", n, 0)
	for _, r := range kept {
		c.wantUnchanged(r)
	}
	for _, r := range kept[:2] { // their leases were not swept either
		c.append(r, saga.Write{})
		c.must("Beat", c.journal.Beat(c.Context(), r.Engine, long))
	}
}

func sweepLimit(c *check) {
	for range 3 {
		c.append(c.started(), saga.Write{Status: saga.Completed, Keep: gone})
	}
	time.Sleep(time.Millisecond)
	swept := 0
	c.eventually("the sweep of all", func() bool {
		n, err := c.journal.Sweep(c.Context(), 2)
		c.must("Sweep", err)
		want(c, "swept more than asked for", n > 2, false)
		swept += n
		return swept == 3
	})
}

var contextLaws = []law{
	{"context: already done, nothing happens", doneContextDoesNothing},
}

func doneContextDoesNothing(c *check) {
	ctx := c.interrupted()
	live, orphan, halted := c.started(), c.orphan(), stuck(c)
	engine := c.beat(long)
	absent := request(engine)
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"Plan", func() error { _, err := c.journal.Plan(ctx, saga.PlanRecord{Name: "n", Version: 1}); return err }},
		{"Beat", func() error { return c.journal.Beat(ctx, newEngine(), long) }},
		{"Leave", func() error { return c.journal.Leave(ctx, live.Engine) }},
		{"Start", func() error { _, _, err := c.journal.Start(ctx, absent); return err }},
		{"Append", func() error {
			return c.journal.Append(ctx, owner(live), saga.Write{Revision: 2, Entries: []saga.Entry{ok("a.b")}})
		}},
		{"Claim", func() error {
			_, err := c.journal.Claim(ctx, saga.ClaimRequest{Engine: engine, Plans: []saga.PlanHash{planOf("checkout")}, Limit: 1})
			return err
		}},
		{"Read", func() error { _, err := c.journal.Read(ctx, live.ID); return err }},
		{"Sweep", func() error { _, err := c.journal.Sweep(ctx, 1); return err }},
		{"Stats", func() error { _, err := c.journal.Stats(ctx); return err }},
		{"List", func() error { _, err := c.journal.List(ctx, saga.ListRequest{Limit: 1}); return err }},
		{"Change", func() error {
			_, _, err := c.journal.Change(ctx, saga.Change{ID: halted.ID, Revision: halted.Revision, Status: saga.Abandoned, By: someone})
			return err
		}},
		{"AuditLog", func() error { _, err := c.journal.AuditLog(ctx, saga.ID{}, 1); return err }},
	} {
		c.wantErr(call.name+" with a done context", call.do(), context.Canceled)
	}
	_, err := c.journal.Read(c.Context(), absent.ID)
	c.wantErr("Read of a saga that was not started", err, saga.ErrNotFound)
	for _, r := range []saga.Record{live, orphan, halted} {
		c.wantUnchanged(r)
	}
	c.must("Beat of an engine that did not leave", c.journal.Beat(c.Context(), live.Engine, long))
}
