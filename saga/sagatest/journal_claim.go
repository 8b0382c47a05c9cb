package sagatest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

var claimRules = []rule{
	{"claim: not before the lease ends by the journal's clock", claimWaitsForTheLease},
	{"claim: the run changes, the saga stays", claimKeepsTheSaga},
	{"claim: the fence grows, and deaths are counted until it gets on", claimCountsDeaths},
	{"claim: only what there is something to do for", claimOfOthers},
	{"claim: not before it is to wake", claimWaitsForTheWakeUp},
	{"claim: only plans that the engine has", claimOfPlans},
	{"claim: of 4 engines each unowned saga goes to one", claimOnce},
	{"claim: no more than asked for, the oldest first", claimLimit},
	{"claim: the plans share it fairly", claimFairly},
	{"claim: what was given up is clean, until it has an owner", claimClean},
	{"claim: who comes back has not died", claimAfterAnOutage},
	{"claim: after the second death not for a while", claimBacksOff},
	{"claim: not without a lease", claimWithoutLease},
}

func claimWaitsForTheLease(c *check) {
	other := c.heartbeat(long)
	before := c.start(other).Now
	r := c.start(c.heartbeat(brief))
	var claimed []journal.Record
	c.eventually("the claim", func() bool {
		claimed = c.claim(other, 10)
		return len(claimed) > 0
	})
	want(c, "claimed", claimed[0].ID, r.ID)
	if held := claimed[0].Now.Sub(before); held < brief-5*time.Millisecond {
		c.Fatalf("claimed %v after the heartbeat at the latest, before the lease of %v ended", held, brief)
	}
	want(c, "RecoveryAttempts", claimed[0].RecoveryAttempts, 1)
	c.startOwned()
	want(c, "sagas of engines that live", len(c.claim(other, 10)), 0)
}

func claimKeepsTheSaga(c *check) {
	r := c.append(c.startOwned(), journal.Write{Entries: []journal.Entry{ok("a.b")}, Status: journal.Compensating, Cause: &failed})
	c.must("Leave", c.journal.Leave(c.Context(), r.Engine))
	next := c.heartbeat(long)
	claimed := c.claim(next, 10)
	want(c, "claimed", len(claimed), 1)
	expect := r
	expect.Engine, expect.Fence, expect.Revision = next, r.Fence+1, r.Revision+1
	c.wantSame("the claimed saga", claimed[0], expect)
	c.wantUnchanged(claimed[0])
	c.append(claimed[0], journal.Write{Entries: []journal.Entry{ok("c.d")}})
}

func claimCountsDeaths(c *check) {
	r := c.start(c.heartbeat(gone))
	lease := brief
	for n := 1; n <= 3; n++ {
		engine := newEngine()
		c.eventually("the claim", func() bool {
			engine = c.heartbeat(lease)
			claimed, err := c.journal.Claim(c.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{planOf("checkout")}, Limit: 1})
			if errors.Is(err, journal.ErrLeaseLost) {
				lease *= 2 // on a slow machine its own lease was over first
				return false
			}
			c.must("Claim", err)
			if len(claimed) == 0 {
				return false
			}
			r = claimed[0]
			return true
		})
		want(c, "RecoveryAttempts", r.RecoveryAttempts, n)
		want(c, "Fence", r.Fence, int64(1+n))
	}
	r = c.append(r, journal.Write{WakeAt: time.Time{}})
	want(c, "RecoveryAttempts after a write without entries", r.RecoveryAttempts, 3)
	r = c.append(r, journal.Write{Entries: []journal.Entry{ok("a.b")}})
	want(c, "RecoveryAttempts after it got on", r.RecoveryAttempts, 0)
}

func claimOfOthers(c *check) {
	for _, s := range situations {
		r := s.put(c)
		c.must("Leave", c.journal.Leave(c.Context(), r.Engine))
		r = c.read(r.ID)
		n := 0
		if r.Status.Active() {
			n = 1
		}
		want(c, "claimed of a saga that is "+s.name, len(c.claim(c.heartbeat(long), 10)), n)
		if n == 0 {
			c.wantUnchanged(r)
		}
	}
}

func claimWaitsForTheWakeUp(c *check) {
	r := c.startOwned()
	asleep := c.append(r, journal.Write{WakeAt: r.Now.Add(long)})
	soon := c.startOwned()
	soon = c.append(soon, journal.Write{WakeAt: soon.Now.Add(brief)})
	engine := c.heartbeat(long)
	var claimed []journal.Record
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
	r := c.startUnowned()
	engine := c.heartbeat(long)
	for _, plans := range [][]journal.PlanHash{nil, {planOf("other")}} {
		claimed, err := c.journal.Claim(c.Context(), journal.ClaimRequest{Engine: engine, Plans: plans, Limit: 10})
		c.must("Claim", err)
		want(c, "claimed without the plan", len(claimed), 0)
	}
	c.wantUnchanged(r)
	claimed, err := c.journal.Claim(c.Context(), journal.ClaimRequest{
		Engine: engine, Plans: []journal.PlanHash{planOf("other"), planOf("checkout")}, Limit: 10,
	})
	c.must("Claim", err)
	want(c, "claimed with the plan", len(claimed), 1)
}

func claimOnce(c *check) {
	const waiting, engines = 60, 4
	engine := c.heartbeat(long)
	for range waiting {
		c.start(engine)
	}
	c.must("Leave", c.journal.Leave(c.Context(), engine))
	var mu sync.Mutex
	owners := make(map[journal.ID]journal.EngineID)
	claimers := make([]journal.EngineID, engines)
	for i := range claimers {
		claimers[i] = c.heartbeat(long)
	}
	runTogether(engines, func(i int) {
		// A claim that meets another may get less than there is.
		for empty := 0; empty < 5; {
			claimed, err := c.journal.Claim(c.Context(), journal.ClaimRequest{Engine: claimers[i], Plans: []journal.PlanHash{planOf("checkout")}, Limit: 7})
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
	want(c, "unowned sagas that found an owner", len(owners), waiting)
}

// growOlder makes what is started later younger than what is there, also for a clock of milliseconds.
func growOlder() { time.Sleep(2 * time.Millisecond) }

func claimLimit(c *check) {
	engine := c.heartbeat(long)
	var ids []journal.ID
	for range 5 {
		ids = append(ids, c.start(engine).ID)
		growOlder()
	}
	c.must("Leave", c.journal.Leave(c.Context(), engine))
	other := c.heartbeat(long)
	for i, n := range []int{2, 2, 1, 0} {
		claimed := c.claim(other, 2)
		want(c, "claimed", len(claimed), n)
		for _, r := range claimed {
			want(c, "one of the oldest was claimed", slices.Contains(ids[2*i:2*i+n], r.ID), true)
		}
	}
}

func claimWithoutLease(c *check) {
	r := c.startUnowned()
	left := c.heartbeat(long)
	c.must("Leave", c.journal.Leave(c.Context(), left))
	for _, engine := range []journal.EngineID{newEngine(), left} {
		_, err := c.journal.Claim(c.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{planOf("checkout")}, Limit: 1})
		c.wantErr("Claim without a lease", err, journal.ErrLeaseLost)
	}
	c.wantUnchanged(r)
}

// startUnownedOf starts n sagas of a plan for that engine; zero: for nobody.
func (c *check) startUnownedOf(plan string, n int, engine journal.EngineID) {
	c.Helper()
	for range n {
		req := request(engine)
		req.Plan = planOf(plan)
		_, _, err := c.journal.Start(c.Context(), req)
		c.must("Start", err)
	}
}

func claimFairly(c *check) {
	c.claimFairly(journal.EngineID{})
	c.claimFairly(c.heartbeat(long))
}

// claimFairly claims sagas that nobody had, or those of an engine that has left.
func (c *check) claimFairly(of journal.EngineID) {
	c.Helper()
	c.startUnownedOf("checkout", 12, of)
	growOlder()
	c.startUnownedOf("other", 4, of)
	if !of.IsZero() {
		c.must("Leave", c.journal.Leave(c.Context(), of))
	}
	engine := c.heartbeat(long)
	claim := func(limit, perPlan int) (checkouts, others int) {
		c.Helper()
		claimed, err := c.journal.Claim(c.Context(), journal.ClaimRequest{
			Engine: engine, Plans: []journal.PlanHash{planOf("checkout"), planOf("other")}, Limit: limit, PerPlan: perPlan,
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
	first := c.heartbeat(brief)
	r := c.start(first)
	want(c, "Clean of a saga that is executed", r.Clean, false)
	r = c.append(r, journal.Write{Entries: []journal.Entry{ok("a.b")}, WakeAt: r.Now})
	want(c, "Clean of a saga that was given up", r.Clean, true)
	// The lease of the one that gave it up is none of its business any more.
	c.eventually("the end of the lease", func() bool { return c.read(r.ID).Now.Sub(r.Now) > 2*brief })
	second := c.heartbeat(long)
	claimed := c.claim(second, 10)
	want(c, "claimed", len(claimed), 1)
	expect := r
	expect.Engine, expect.Fence, expect.Revision, expect.WakeAt = second, r.Fence+1, r.Revision+1, time.Time{}
	c.wantSame("the claimed saga", claimed[0], expect)
	expect.Clean = false
	c.wantUnchanged(expect)
	c.must("Leave", c.journal.Leave(c.Context(), second))
	want(c, "Clean of a saga whose engine had begun", c.claim(c.heartbeat(long), 10)[0].Clean, false)
}

func claimAfterAnOutage(c *check) {
	died, outlived := c.start(c.heartbeat(gone)), c.start(c.heartbeat(gone))
	claimBoth := func() map[journal.ID]int {
		deaths := make(map[journal.ID]int)
		c.eventually("the claim of both", func() bool {
			engine := c.heartbeat(long)
			for _, r := range c.claim(engine, 2) {
				deaths[r.ID] = r.RecoveryAttempts
			}
			c.must("Leave", c.journal.Leave(c.Context(), engine))
			return len(deaths) == 2
		})
		return deaths
	}
	deaths := claimBoth()
	want(c, "RecoveryAttempts after the lease ended", deaths[outlived.ID], 1)
	c.must("Leave of an engine whose lease has ended", c.journal.Leave(c.Context(), outlived.Engine))
	deaths = claimBoth()
	want(c, "RecoveryAttempts after the engine came back", deaths[outlived.ID], 0)
	want(c, "RecoveryAttempts of the other saga", deaths[died.ID], 1)
}

func claimBacksOff(c *check) {
	const backoff = 5 * brief
	lease := brief
	r := c.start(c.heartbeat(gone))
	claim := func(backoff time.Duration) (claimed []journal.Record) {
		c.eventually("the claim", func() bool {
			engine := c.heartbeat(lease)
			var err error
			claimed, err = c.journal.Claim(c.Context(), journal.ClaimRequest{
				Engine: engine, Plans: []journal.PlanHash{planOf("checkout")}, Limit: 1, Backoff: backoff,
			})
			if errors.Is(err, journal.ErrLeaseLost) {
				lease *= 2 // on a slow machine its own lease was over first
				return false
			}
			c.must("Claim", err)
			return len(claimed) > 0
		})
		return claimed
	}
	first := claim(long)[0] // nobody waits after the first death
	want(c, "RecoveryAttempts", first.RecoveryAttempts, 1)
	want(c, "claimed", first.ID, r.ID)
	for n, least := range []time.Duration{backoff, 2 * backoff} {
		next := claim(backoff)[0]
		want(c, "RecoveryAttempts", next.RecoveryAttempts, n+2)
		if waited := next.Now.Sub(first.Now); waited < least {
			c.Fatalf("claimed %v after the claim before, want at least %v", waited, least)
		}
		first = next
	}
}
