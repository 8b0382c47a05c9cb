package sagatest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga"
)

var claimLaws = []law{
	{"claim: not before the lease ends by the journal's clock", claimWaitsForTheLease},
	{"claim: the run changes, the saga stays", claimKeepsTheSaga},
	{"claim: the fence grows, and deaths are counted until it gets on", claimCountsDeaths},
	{"claim: only what there is something to do for", claimOfOthers},
	{"claim: not before it is to wake", claimWaitsForTheWakeUp},
	{"claim: only plans that the engine has", claimOfPlans},
	{"claim: of 4 engines each orphan goes to one", claimOnce},
	{"claim: no more than asked for, the oldest first", claimLimit},
	{"claim: no more suspects than asked for", claimSuspects},
	{"claim: not without a lease", claimWithoutLease},
}

func claimWaitsForTheLease(c *check) {
	other := c.beat(long)
	before := c.start(other).Now
	r := c.start(c.beat(brief))
	var claimed []saga.Record
	c.eventually("the claim", func() bool {
		claimed = c.claim(other, 10)
		return len(claimed) > 0
	})
	want(c, "claimed", claimed[0].ID, r.ID)
	if held := claimed[0].Now.Sub(before); held < brief-5*time.Millisecond {
		c.Fatalf("claimed %v after the beat at the latest, before the lease of %v ended", held, brief)
	}
	want(c, "Deaths", claimed[0].Deaths, 1)
	c.started()
	want(c, "sagas of engines that live", len(c.claim(other, 10)), 0)
}

func claimKeepsTheSaga(c *check) {
	r := c.append(c.started(), saga.Write{Entries: []saga.Entry{ok("a.b")}, Status: saga.Compensating, Cause: &failed})
	c.must("Leave", c.journal.Leave(c.Context(), r.Engine))
	next := c.beat(long)
	claimed := c.claim(next, 10)
	want(c, "claimed", len(claimed), 1)
	expect := r
	expect.Engine, expect.Fence, expect.Revision = next, r.Fence+1, r.Revision+1
	c.wantSame("the claimed saga", claimed[0], expect)
	c.wantUnchanged(claimed[0])
	c.append(claimed[0], saga.Write{Entries: []saga.Entry{ok("c.d")}})
}

func claimCountsDeaths(c *check) {
	r := c.start(c.beat(gone))
	for n := 1; n <= 3; n++ {
		engine := newEngine()
		c.eventually("the claim", func() bool {
			engine = c.beat(brief)
			claimed, err := c.journal.Claim(c.Context(), saga.ClaimRequest{Engine: engine, Plans: []saga.PlanHash{planOf("checkout")}, Limit: 1, Suspects: 1})
			if errors.Is(err, saga.ErrLeaseLost) {
				return false // on a slow machine its own lease was over first
			}
			c.must("Claim", err)
			if len(claimed) == 0 {
				return false
			}
			r = claimed[0]
			return true
		})
		want(c, "Deaths", r.Deaths, n)
		want(c, "Fence", r.Fence, int64(1+n))
	}
	r = c.append(r, saga.Write{WakeAt: time.Time{}})
	want(c, "Deaths after a write without entries", r.Deaths, 3)
	r = c.append(r, saga.Write{Entries: []saga.Entry{ok("a.b")}})
	want(c, "Deaths after it got on", r.Deaths, 0)
}

func claimOfOthers(c *check) {
	for _, s := range situations {
		r := s.put(c)
		c.must("Leave", c.journal.Leave(c.Context(), r.Engine))
		r = c.read(r.ID)
		n := 0
		if r.Status.Driven() {
			n = 1
		}
		want(c, "claimed of a saga that is "+s.name, len(c.claim(c.beat(long), 10)), n)
		if n == 0 {
			c.wantUnchanged(r)
		}
	}
}

func claimWaitsForTheWakeUp(c *check) {
	r := c.started()
	asleep := c.append(r, saga.Write{WakeAt: r.Now.Add(long)})
	soon := c.started()
	soon = c.append(soon, saga.Write{WakeAt: soon.Now.Add(brief)})
	c.must("Leave", c.journal.Leave(c.Context(), asleep.Engine))
	c.must("Leave", c.journal.Leave(c.Context(), soon.Engine))
	engine := c.beat(long)
	var claimed []saga.Record
	c.eventually("the wake-up", func() bool {
		claimed = c.claim(engine, 10)
		return len(claimed) > 0
	})
	want(c, "claimed", claimed[0].ID, soon.ID)
	if claimed[0].Now.Before(soon.WakeAt) {
		c.Fatalf("claimed %v before its time", soon.WakeAt.Sub(claimed[0].Now))
	}
	c.wantUnchanged(c.read(asleep.ID))
}

func claimOfPlans(c *check) {
	r := c.orphan()
	engine := c.beat(long)
	for _, plans := range [][]saga.PlanHash{nil, {planOf("other")}} {
		claimed, err := c.journal.Claim(c.Context(), saga.ClaimRequest{Engine: engine, Plans: plans, Limit: 10})
		c.must("Claim", err)
		want(c, "claimed without the plan", len(claimed), 0)
	}
	c.wantUnchanged(r)
	claimed, err := c.journal.Claim(c.Context(), saga.ClaimRequest{
		Engine: engine, Plans: []saga.PlanHash{planOf("other"), planOf("checkout")}, Limit: 10,
	})
	c.must("Claim", err)
	want(c, "claimed with the plan", len(claimed), 1)
}

func claimOnce(c *check) {
	const orphans, engines = 60, 4
	engine := c.beat(long)
	for range orphans {
		c.start(engine)
	}
	c.must("Leave", c.journal.Leave(c.Context(), engine))
	var mu sync.Mutex
	owners := make(map[saga.ID]saga.EngineID)
	claimers := make([]saga.EngineID, engines)
	for i := range claimers {
		claimers[i] = c.beat(long)
	}
	together(engines, func(i int) {
		// A claim that meets another may get less than there is.
		for empty := 0; empty < 5; {
			claimed, err := c.journal.Claim(c.Context(), saga.ClaimRequest{Engine: claimers[i], Plans: []saga.PlanHash{planOf("checkout")}, Limit: 7})
			if err != nil {
				c.Errorf("Claim: error = %v, want none", err)
				return
			}
			if len(claimed) == 0 {
				empty++
				time.Sleep(time.Millisecond)
				continue
			}
			mu.Lock()
			for _, r := range claimed {
				if other, taken := owners[r.ID]; taken {
					c.Errorf("saga claimed twice, by %v and %v", other, claimers[i])
				}
				if r.Engine != claimers[i] || r.Fence != 2 {
					c.Errorf("claimed saga has engine %v and fence %d, want %v and 2", r.Engine, r.Fence, claimers[i])
				}
				owners[r.ID] = claimers[i]
			}
			mu.Unlock()
		}
	})
	want(c, "orphans that found an owner", len(owners), orphans)
}

func claimLimit(c *check) {
	engine := c.beat(long)
	var ids []saga.ID
	for range 5 {
		ids = append(ids, c.start(engine).ID)
		time.Sleep(2 * time.Millisecond) // so that none is as old as another
	}
	c.must("Leave", c.journal.Leave(c.Context(), engine))
	other := c.beat(long)
	for i, n := range []int{2, 2, 1, 0} {
		claimed := c.claim(other, 2)
		want(c, "claimed", len(claimed), n)
		for _, r := range claimed {
			want(c, "one of the oldest was claimed", slices.Contains(ids[2*i:2*i+n], r.ID), true)
		}
	}
}

func claimWithoutLease(c *check) {
	r := c.orphan()
	left := c.beat(long)
	c.must("Leave", c.journal.Leave(c.Context(), left))
	for _, engine := range []saga.EngineID{newEngine(), left} {
		_, err := c.journal.Claim(c.Context(), saga.ClaimRequest{Engine: engine, Plans: []saga.PlanHash{planOf("checkout")}, Limit: 1})
		c.wantErr("Claim without a lease", err, saga.ErrLeaseLost)
	}
	c.wantUnchanged(r)
}

func claimSuspects(c *check) {
	engine := c.beat(gone)
	for range 3 {
		c.start(engine)
	}
	for range saga.SuspectDeaths - 1 { // each engine dies with all three
		claimed := make(map[saga.ID]bool)
		c.eventually("the claim of all", func() bool {
			got, err := c.journal.Claim(c.Context(), saga.ClaimRequest{
				Engine: c.beat(brief), Plans: []saga.PlanHash{planOf("checkout")}, Limit: 3 - len(claimed), Suspects: 0,
			})
			if errors.Is(err, saga.ErrLeaseLost) {
				return false // on a slow machine its own lease was over first
			}
			c.must("Claim", err)
			for _, r := range got {
				claimed[r.ID] = true
			}
			return len(claimed) == 3
		})
	}
	innocent := c.orphan()
	other := c.beat(long)
	claim := func(suspects int) []saga.Record {
		c.Helper()
		got, err := c.journal.Claim(c.Context(), saga.ClaimRequest{
			Engine: other, Plans: []saga.PlanHash{planOf("checkout")}, Limit: 10, Suspects: suspects,
		})
		c.must("Claim", err)
		return got
	}
	got := claim(0)
	want(c, "claimed without suspects", len(got), 1)
	want(c, "claimed", got[0].ID, innocent.ID)
	c.eventually("the end of the last lease", func() bool { got = claim(1); return len(got) > 0 })
	want(c, "suspects claimed", len(got), 1)
	want(c, "Deaths", got[0].Deaths, saga.SuspectDeaths)
	want(c, "suspects claimed then", len(claim(10)), 2)
}
