package sagatest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

var leaseRules = []rule{
	{"plan: the first is kept", firstPlanIsKept},
	{"heartbeat: a lease that ended is not given again", endedLeaseStaysEnded},
	{"heartbeat: it extends a lease", heartbeatExtends},
	{"leave: its sagas are unowned at once, and nobody died", leaveMakesUnowned},
}

func firstPlanIsKept(c *check) {
	plan := journal.PlanRecord{Name: "checkout", Version: 3, Hash: planOf("checkout"), Lines: []string{"a.b POST /", "c.d function"}}
	for _, put := range []journal.PlanRecord{plan, plan, {Name: "checkout", Version: 3, Hash: planOf("other"), Lines: []string{"x"}}} {
		got, err := c.journal.Plan(c.Context(), put)
		c.must("Plan", err)
		want(c, "stored hash", got.Hash, plan.Hash)
		want(c, "stored lines", len(got.Lines), len(plan.Lines))
		want(c, "stored line", got.Lines[1], plan.Lines[1])
	}
	got, err := c.journal.ReadPlan(c.Context(), "checkout", 3)
	c.must("ReadPlan", err)
	want(c, "plan as it is read", fmt.Sprint(got), fmt.Sprint(plan))
	for range 2 { // it stores nothing
		_, err = c.journal.ReadPlan(c.Context(), "checkout", 4)
		c.wantErr("ReadPlan of a version that is missing", err, journal.ErrNotFound)
	}
	next := journal.PlanRecord{Name: "checkout", Version: 4, Hash: planOf("next")}
	got, err = c.journal.Plan(c.Context(), next)
	c.must("Plan of another version", err)
	want(c, "hash of another version", got.Hash, next.Hash)
}

func endedLeaseStaysEnded(c *check) {
	engine := c.heartbeat(gone)
	c.eventually("the end of the lease", func() bool {
		_, err := c.journal.Claim(c.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{planOf("checkout")}, Limit: 1})
		return err != nil
	})
	c.wantErr("Heartbeat after the end of the lease", c.journal.Heartbeat(c.Context(), engine, long), journal.ErrLeaseLost)
	engine = c.heartbeat(long)
	c.must("Leave", c.journal.Leave(c.Context(), engine))
	c.wantErr("Heartbeat after Leave", c.journal.Heartbeat(c.Context(), engine, long), journal.ErrLeaseLost)
}

func heartbeatExtends(c *check) {
	engine := c.heartbeat(time.Second)
	r := c.start(engine)
	c.must("Heartbeat again", c.journal.Heartbeat(c.Context(), engine, long))
	other := c.heartbeat(long)
	c.eventually("the end of the first lease", func() bool { return c.read(r.ID).Now.Sub(r.Now) > 1100*time.Millisecond })
	want(c, "unowned sagas of an engine that beats", len(c.claim(other, 10)), 0)
}

func leaveMakesUnowned(c *check) {
	r := c.startUnowned()
	claimed := c.claim(c.heartbeat(long), 10)
	want(c, "unowned sagas of an engine that left", len(claimed), 1)
	want(c, "RecoveryAttempts", claimed[0].RecoveryAttempts, 0)
	want(c, "Fence", claimed[0].Fence, r.Fence+1)
}

var startRules = []rule{
	{"start: the saga is as it was asked for", startIsRecorded},
	{"start: one of 32 wins, 20 times", oneStartWins},
	{"start: a duplicate gets the saga and changes nothing", duplicateStart},
	{"start: repeated after a lost answer it knows itself", repeatedStart},
	{"start: nobody's saga is claimed at once", startForNobody},
	{"start: with At nobody's saga is claimed then", startAt},
	{"start: large inputs and keys survive", largeStart},
}

func startIsRecorded(c *check) {
	req := request(c.heartbeat(long))
	req.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r, _, err := c.journal.Start(c.Context(), req)
	c.must("Start", err)
	c.wantSame("the new saga", r, journal.Record{
		ID: req.ID, Scope: req.Scope, Key: req.Key, Name: req.Name, Version: req.Version, Plan: req.Plan,
		InputHash: req.InputHash, Input: req.Input, Trace: req.Trace, Status: journal.Running, Engine: req.Engine, Fence: 1, Revision: 1,
		Times: journal.Times{CreatedAt: r.CreatedAt, FirstClaimedAt: r.CreatedAt},
	})
	if age := r.Now.Sub(r.CreatedAt).Abs(); age > time.Second {
		c.Fatalf("CreatedAt is %v from the journal's clock", age)
	}
	c.wantUnchanged(r)
	_, err = c.journal.Read(c.Context(), journal.ID{1})
	c.wantErr("Read of an absent saga", err, journal.ErrNotFound)
}

func oneStartWins(c *check) {
	for range 20 {
		req := request(journal.EngineID{})
		var wins atomic.Int32
		runTogether(32, func(int) {
			mine := req
			mine.Engine = newEngine()
			r, created, err := c.journal.Start(c.Context(), mine)
			if err != nil {
				c.Errorf("Start: error = %v, want none", err)
				return
			}
			if created {
				wins.Add(1)
			}
			if created != (r.Engine == mine.Engine) {
				c.Errorf("created = %v, with engine %v, want it true for the saga's own engine only", created, r.Engine)
			}
		})
		want(c, "winners", wins.Load(), 1)
	}
}

func duplicateStart(c *check) {
	for _, s := range situations {
		was := s.put(c)
		req := ofSame(request(c.heartbeat(long)), was)
		r, created, err := c.journal.Start(c.Context(), req)
		c.must("Start of a saga that is "+s.name, err)
		want(c, "Start of a saga that is "+s.name+": created", created, false)
		c.wantSame("Start of a saga that is "+s.name, r, was)
		c.wantUnchanged(was)
	}
}

// ofSame returns req for the saga in r, with another input.
func ofSame(req journal.StartRequest, r journal.Record) journal.StartRequest {
	req.ID, req.Scope, req.Name, req.Key = r.ID, r.Scope, r.Name, r.Key
	return req
}

func repeatedStart(c *check) {
	req := request(c.heartbeat(long))
	first, _, err := c.journal.Start(c.Context(), req)
	c.must("Start", err)
	again, created, err := c.journal.Start(c.Context(), req)
	c.must("Start repeated", err)
	want(c, "Start repeated: created", created, true)
	c.wantSame("Start repeated", again, first)
	c.append(first, journal.Write{Entries: []journal.Entry{ok("a.b")}})
	_, created, err = c.journal.Start(c.Context(), req)
	c.must("Start repeated after a write", err)
	want(c, "Start repeated after a write: created", created, false)
}

func startForNobody(c *check) {
	r := c.start(journal.EngineID{})
	want(c, "Fence", r.Fence, 0)
	want(c, "FirstClaimedAt before the first claim", r.FirstClaimedAt, time.Time{})
	_, created, err := c.journal.Start(c.Context(), ofSame(request(journal.EngineID{}), r))
	c.must("Start repeated", err)
	want(c, "Start repeated for nobody: created", created, false)
	claimed := c.claim(c.heartbeat(long), 10)
	want(c, "claimed", len(claimed), 1)
	want(c, "Fence of the first owner", claimed[0].Fence, 1)
	want(c, "RecoveryAttempts", claimed[0].RecoveryAttempts, 0)
	first := claimed[0]
	c.wantDuring("FirstClaimedAt", first.FirstClaimedAt, r, first)
	c.must("Leave", c.journal.Leave(c.Context(), first.Engine))
	claimed = c.claim(c.heartbeat(long), 10)
	want(c, "claimed again", len(claimed), 1)
	want(c, "FirstClaimedAt of the second claim", claimed[0].FirstClaimedAt.Equal(first.FirstClaimedAt), true)
}

func startAt(c *check) {
	now := c.start(c.heartbeat(long)).Now // by the journal's clock
	startIn := func(wait time.Duration) journal.Record {
		req := request(journal.EngineID{})
		req.At = now.Add(wait)
		r, _, err := c.journal.Start(c.Context(), req)
		c.must("Start", err)
		c.wantUnchanged(r)
		want(c, "FirstClaimedAt is zero", r.FirstClaimedAt.IsZero(), true)
		return r
	}
	later, late := startIn(time.Hour), startIn(-time.Hour)
	if off := later.WakeAt.Sub(now) - time.Hour; off.Abs() > time.Millisecond {
		c.Fatalf("WakeAt is %v from the At of the request", off)
	}
	want(c, "WakeAt with an At that is over", late.WakeAt, late.CreatedAt)
	claimed := c.claim(c.heartbeat(long), 10)
	want(c, "claimed sagas", len(claimed), 1)
	want(c, "the saga that is claimed", claimed[0].ID, late.ID)
	now = c.read(late.ID).Now
	startIn(time.Second)
	engine := c.heartbeat(long)
	c.eventually("the claim at its time", func() bool { return len(c.claim(engine, 10)) == 1 })
}

func largeStart(c *check) {
	req := request(c.heartbeat(long))
	req.Input = bytes.Repeat([]byte("\x00x\xff\""), journal.MaxInputBytes/4)
	req.InputHash = sha256.Sum256(req.Input)
	r, _, err := c.journal.Start(c.Context(), req)
	c.must("Start", err)
	c.wantUnchanged(r)
	e := ok("a.b")
	e.Result = bytes.Repeat([]byte("r"), journal.MaxResultBytes)
	r = c.append(r, journal.Write{Entries: []journal.Entry{e}})
	want(c, "bytes of the result", len(r.Entries[0].Result), journal.MaxResultBytes)
	want(c, "bytes of the input", len(r.Input), len(req.Input))
}
