package sagatest

import (
	"github.com/fanonce/fanonce/saga/journal"
)

var newer = journal.Failure{Reason: journal.ReasonNewer, Detail: "input: order has no member \"note\""}

var deferRules = []rule{
	{"defer: the saga has no engine, and says why", deferReleases},
	{"defer: only a claim that asks for deferred sagas gets one", deferIsPassedOver},
	{"defer: a change of the saga ends it", deferEndsWithAChange},
}

// deferSaga returns a saga that its engine deferred, and the saga as the engine had it.
func deferSaga(c *check) (r, was journal.Record) {
	c.Helper()
	was = c.append(c.startOwned(), journal.Write{Entries: []journal.Entry{ok("a.b")}})
	return c.append(was, journal.Write{Defer: &newer}), was
}

func deferReleases(c *check) {
	r, was := deferSaga(c)
	expect := was
	expect.Revision, expect.Engine, expect.Deferred = was.Revision+1, journal.EngineID{}, &newer
	c.wantSame("the deferred saga", r, expect)
	again := journal.Write{Revision: r.Revision, Defer: &newer}
	c.must("Append of Defer repeated", c.journal.Append(c.Context(), owner(was), again))
	for revision := r.Revision; revision <= r.Revision+1; revision++ {
		w := journal.Write{Revision: revision, Entries: []journal.Entry{ok("c.d")}}
		c.wantErr("Append to a deferred saga", c.journal.Append(c.Context(), owner(was), w), journal.ErrLeaseLost)
	}
	c.wantUnchanged(r)
	st, err := c.journal.Stats(c.Context())
	c.must("Stats", err)
	want(c, "Stats.Deferred", st.Deferred, 1)
	want(c, "Stats.Unowned", st.Unowned, 1)
	c.startUnowned()
	listed, err := c.journal.List(c.Context(), journal.ListRequest{Deferred: true, Limit: 10})
	c.must("List", err)
	want(c, "deferred sagas listed", len(listed), 1)
	c.wantFailure("Deferred, as listed", listed[0].Deferred, newer)
}

func deferIsPassedOver(c *check) {
	r, _ := deferSaga(c)
	other, engine := c.startUnowned(), c.heartbeat(long)
	plans := []journal.PlanHash{planOf("checkout")}
	claim := func(what string, deferred []journal.PlanHash, n int) []journal.Record {
		c.Helper()
		claimed, err := c.journal.Claim(c.Context(), journal.ClaimRequest{Engine: engine, Plans: plans, Deferred: deferred, Limit: 10})
		c.must("Claim", err)
		want(c, what, len(claimed), n)
		return claimed
	}
	claimed := claim("claimed without deferred sagas", nil, 1)
	want(c, "claimed", claimed[0].ID, other.ID)
	claim("claimed with deferred sagas of another plan", []journal.PlanHash{planOf("other")}, 0)
	c.wantUnchanged(r)
	claimed = claim("claimed with deferred sagas", plans, 1)
	expect := r
	expect.Engine, expect.Deferred, expect.Fence, expect.Revision = engine, nil, r.Fence+1, r.Revision+1
	c.wantSame("the saga that was deferred", claimed[0], expect)
	c.append(claimed[0], journal.Write{Entries: []journal.Entry{ok("c.d")}})
}

func deferEndsWithAChange(c *check) {
	r, _ := deferSaga(c)
	r = c.change(r, journal.Change{Status: journal.Running, Cancel: true})
	want(c, "deferred after a change", r.Deferred != nil, false)
	want(c, "claimed after a change", len(c.claim(c.heartbeat(long), 10)), 1)
}
