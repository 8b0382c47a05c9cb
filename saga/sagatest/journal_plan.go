package sagatest

import (
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// later is the other plan of these rules.
var later = journal.Change{Plan: planOf("later"), Version: 4}

func changeThePlan(c *check) {
	for _, s := range situations {
		r := s.put(c)
		got := c.change(r, later)
		expect := r
		expect.Plan, expect.Version = planOf("later"), 4
		expect.Engine, expect.Fence, expect.Revision, expect.RecoveryAttempts, expect.ResumedAt = journal.EngineID{}, r.Fence+1, r.Revision+1, 0, got.ResumedAt
		if r.Status.Active() {
			expect.WakeAt = got.ResumedAt
		}
		c.wantSame("the moved saga that is "+s.name, got, expect)
		c.wantUnchanged(got)
		c.wantDuring("ResumedAt", got.ResumedAt, r, got)
		c.wantErr("Append by the owner before", c.journal.Append(c.Context(), owner(r), journal.Write{Revision: got.Revision + 1}), journal.ErrLeaseLost)
		log, err := c.journal.Reader().AuditPage(c.Context(), journal.AuditRequest{ID: r.ID, Limit: 1})
		c.must("AuditPage", err)
		want(c, "its audit", log[0].Audit, someone)
		want(c, "From and To", [2]journal.Status{log[0].From, log[0].To}, [2]journal.Status{r.Status, r.Status})
		want(c, "Fence in the audit log", log[0].Fence, got.Fence)
		_, won, err := c.journal.Change(c.Context(), journal.Change{ID: r.ID, Revision: r.Revision, Plan: planOf("other"), Version: 5, By: someone})
		c.must("Change", err)
		want(c, "a move at an old revision: won", won, false)
		c.wantUnchanged(got)
	}
	want(c, "claimed by engines of the plan before", len(c.claim(c.heartbeat(long), 10)), 0)
	claimed, err := c.journal.Claim(c.Context(), journal.ClaimRequest{Engine: c.heartbeat(long), Plans: []journal.PlanHash{planOf("later")}, Limit: 10})
	c.must("Claim", err)
	want(c, "claimed by an engine of the plan", len(claimed), 2)
}

// A saga that sleeps is due, since the other plan may have more to do. One that no engine had yet begins at its own time.
func changeThePlanOfWhatWaits(c *check) {
	asleep := c.startOwned()
	asleep = c.append(asleep, journal.Write{Entries: []journal.Entry{ok("a.b")}, WakeAt: asleep.Now.Add(long)})
	asleep = c.change(asleep, journal.Change{Wake: true})
	asleep = c.change(asleep, later)
	want(c, "WakeAt of a saga that slept", asleep.WakeAt, asleep.ResumedAt)
	want(c, "Clean of a saga that slept", asleep.Clean, true)
	want(c, "Wakes", asleep.Wakes, 0)
	c.wantUnchanged(asleep)

	deferred := c.startOwned()
	deferred = c.append(deferred, journal.Write{Defer: &newer})
	deferred = c.change(deferred, later)
	want(c, "Deferred", deferred.Deferred == nil, true)
	want(c, "WakeAt of a saga that was deferred", deferred.WakeAt, deferred.ResumedAt)
	c.wantUnchanged(deferred)

	req := request(journal.EngineID{})
	req.At = time.Now().Add(long).UTC().Truncate(time.Second)
	unclaimed, _, err := c.journal.Start(c.Context(), req)
	c.must("Start", err)
	unclaimed = c.change(unclaimed, later)
	want(c, "WakeAt of a saga that no engine had", unclaimed.WakeAt.Equal(req.At), true)
	want(c, "Fence of a saga that no engine had", unclaimed.Fence, 0)
	c.wantUnchanged(unclaimed)

	for _, both := range []journal.Change{
		{Plan: later.Plan, Version: 4, Status: journal.Running}, {Plan: later.Plan, Version: 4, Wake: true},
		{Plan: later.Plan, Version: 4, Cancel: true}, {Plan: later.Plan, Version: 4, Entries: []journal.Entry{ok("a.b")}},
	} {
		both.ID, both.Revision, both.By = asleep.ID, asleep.Revision, someone
		_, won, err := c.journal.Change(c.Context(), both)
		want(c, "a move with another change is refused", err != nil && !won, true)
		c.wantUnchanged(asleep)
	}
}
