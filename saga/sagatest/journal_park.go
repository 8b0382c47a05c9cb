package sagatest

import (
	"github.com/fanonce/fanonce/saga/journal"
)

var newer = journal.Failure{Reason: journal.ReasonNewer, Detail: "input: order has no member \"note\""}

var parkRules = []rule{
	{"park: the saga has no engine, and says why", parkReleases},
	{"park: only a claim that asks for parked sagas gets one", parkIsPassedOver},
	{"park: a change of the saga ends it", parkEndsWithAChange},
}

// parked returns a saga that its engine parked, and the saga as the engine had it.
func parked(c *check) (r, was journal.Record) {
	c.Helper()
	was = c.append(c.started(), journal.Write{Entries: []journal.Entry{ok("a.b")}})
	return c.append(was, journal.Write{Park: &newer}), was
}

func parkReleases(c *check) {
	r, was := parked(c)
	expect := was
	expect.Revision, expect.Engine, expect.Parked = was.Revision+1, journal.EngineID{}, &newer
	c.wantSame("the parked saga", r, expect)
	again := journal.Write{Revision: r.Revision, Park: &newer}
	c.must("Append of Park repeated", c.journal.Append(c.Context(), owner(was), again))
	for revision := r.Revision; revision <= r.Revision+1; revision++ {
		w := journal.Write{Revision: revision, Entries: []journal.Entry{ok("c.d")}}
		c.wantErr("Append to a parked saga", c.journal.Append(c.Context(), owner(was), w), journal.ErrLeaseLost)
	}
	c.wantUnchanged(r)
	st, err := c.journal.Stats(c.Context())
	c.must("Stats", err)
	want(c, "Stats.Parked", st.Parked, 1)
	want(c, "Stats.Unowned", st.Unowned, 1)
	listed, err := c.journal.List(c.Context(), journal.ListRequest{Unowned: true, Limit: 10})
	c.must("List", err)
	want(c, "unowned sagas listed", len(listed), 1)
	c.unowned()
	want(c, "parked sagas listed", len(c.list(journal.ListRequest{Parked: true})), 1)
	c.wantFailure("Parked, as listed", listed[0].Parked, newer)
}

func parkIsPassedOver(c *check) {
	r, _ := parked(c)
	other, engine := c.unowned(), c.heartbeat(long)
	plans := []journal.PlanHash{planOf("checkout")}
	claim := func(what string, parked []journal.PlanHash, n int) []journal.Record {
		c.Helper()
		claimed, err := c.journal.Claim(c.Context(), journal.ClaimRequest{Engine: engine, Plans: plans, Parked: parked, Limit: 10})
		c.must("Claim", err)
		want(c, what, len(claimed), n)
		return claimed
	}
	claimed := claim("claimed without parked sagas", nil, 1)
	want(c, "claimed", claimed[0].ID, other.ID)
	claim("claimed with parked sagas of another plan", []journal.PlanHash{planOf("other")}, 0)
	c.wantUnchanged(r)
	claimed = claim("claimed with parked sagas", plans, 1)
	expect := r
	expect.Engine, expect.Parked, expect.Fence, expect.Revision = engine, nil, r.Fence+1, r.Revision+1
	c.wantSame("the saga that was parked", claimed[0], expect)
	c.append(claimed[0], journal.Write{Entries: []journal.Entry{ok("c.d")}})
}

func parkEndsWithAChange(c *check) {
	r, _ := parked(c)
	r = c.change(r, journal.Change{Status: journal.Running, Cancel: true})
	want(c, "parked after a change", r.Parked != nil, false)
	want(c, "claimed after a change", len(c.claim(c.heartbeat(long), 10)), 1)
}
