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
	{"claim: the plans share it fairly", claimFairly},
	{"claim: what was given up is clean, until it has an owner", claimClean},
	{"claim: who comes back has not died", claimAfterAnOutage},
	{"claim: after the second death not for a while", claimBacksOff},
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
			claimed, err := c.journal.Claim(c.Context(), saga.ClaimRequest{Engine: engine, Plans: []saga.PlanHash{planOf("checkout")}, Limit: 1})
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

// orphansOf starts n sagas of a plan for nobody.
func (c *check) orphansOf(plan string, n int) {
	c.Helper()
	for range n {
		req := request(saga.EngineID{})
		req.Plan = planOf(plan)
		_, _, err := c.journal.Start(c.Context(), req)
		c.must("Start", err)
	}
}

func claimFairly(c *check) {
	c.orphansOf("checkout", 12)
	time.Sleep(2 * time.Millisecond) // so that the others are younger
	c.orphansOf("other", 4)
	engine := c.beat(long)
	claim := func(limit, perPlan int) (checkouts, others int) {
		c.Helper()
		claimed, err := c.journal.Claim(c.Context(), saga.ClaimRequest{
			Engine: engine, Plans: []saga.PlanHash{planOf("checkout"), planOf("other")}, Limit: limit, PerPlan: perPlan,
		})
		c.must("Claim", err)
		for _, r := range claimed {
			if r.Plan == planOf("other") {
				others++
			}
		}
		return len(claimed) - others, others
	}
	checkouts, others := claim(4, 0)
	want(c, "claimed of the plan with the older ones", checkouts, 2)
	want(c, "claimed of the other plan", others, 2)
	checkouts, others = claim(10, 1)
	want(c, "claimed with one per plan", checkouts, 1)
	want(c, "claimed of the other plan with one per plan", others, 1)
	checkouts, others = claim(8, 0)
	want(c, "claimed where the other plan has one left", checkouts, 7)
	want(c, "claimed of the other plan's last", others, 1)
}

func claimClean(c *check) {
	first := c.beat(brief)
	r := c.start(first)
	want(c, "Clean of a saga that is driven", r.Clean, false)
	r = c.append(r, saga.Write{Entries: []saga.Entry{ok("a.b")}, WakeAt: r.Now})
	want(c, "Clean of a saga that was given up", r.Clean, true)
	// The lease of the one that gave it up is none of its business any more.
	c.eventually("the end of the lease", func() bool { return c.read(r.ID).Now.Sub(r.Now) > 2*brief })
	second := c.beat(long)
	claimed := c.claim(second, 10)
	want(c, "claimed", len(claimed), 1)
	expect := r
	expect.Engine, expect.Fence, expect.Revision, expect.WakeAt = second, r.Fence+1, r.Revision+1, time.Time{}
	c.wantSame("the claimed saga", claimed[0], expect)
	expect.Clean = false
	c.wantUnchanged(expect)
	c.must("Leave", c.journal.Leave(c.Context(), second))
	want(c, "Clean of a saga whose engine had begun", c.claim(c.beat(long), 10)[0].Clean, false)
}

func claimAfterAnOutage(c *check) {
	died, outlived := c.start(c.beat(gone)), c.start(c.beat(gone))
	claimBoth := func() map[saga.ID]int {
		deaths := make(map[saga.ID]int)
		c.eventually("the claim of both", func() bool {
			engine := c.beat(long)
			for _, r := range c.claim(engine, 2) {
				deaths[r.ID] = r.Deaths
			}
			c.must("Leave", c.journal.Leave(c.Context(), engine))
			return len(deaths) == 2
		})
		return deaths
	}
	deaths := claimBoth()
	want(c, "Deaths after the lease ended", deaths[outlived.ID], 1)
	c.must("Leave of an engine whose lease has ended", c.journal.Leave(c.Context(), outlived.Engine))
	deaths = claimBoth()
	want(c, "Deaths after the engine came back", deaths[outlived.ID], 0)
	want(c, "Deaths of the other saga", deaths[died.ID], 1)
}

func claimBacksOff(c *check) {
	const backoff = 5 * brief
	r := c.start(c.beat(gone))
	claim := func(backoff time.Duration) (claimed []saga.Record) {
		c.eventually("the claim", func() bool {
			engine := c.beat(brief)
			var err error
			claimed, err = c.journal.Claim(c.Context(), saga.ClaimRequest{
				Engine: engine, Plans: []saga.PlanHash{planOf("checkout")}, Limit: 1, Backoff: backoff,
			})
			if errors.Is(err, saga.ErrLeaseLost) {
				return false // on a slow machine its own lease was over first
			}
			c.must("Claim", err)
			return len(claimed) > 0
		})
		return claimed
	}
	first := claim(long)[0] // nobody waits after the first death
	want(c, "Deaths", first.Deaths, 1)
	want(c, "claimed", first.ID, r.ID)
	for n, least := range []time.Duration{backoff, 2 * backoff} {
		next := claim(backoff)[0]
		want(c, "Deaths", next.Deaths, n+2)
		if waited := next.Now.Sub(first.Now); waited < least {
			c.Fatalf("claimed %v after the claim before, want at least %v", waited, least)
		}
		first = next
	}
}
