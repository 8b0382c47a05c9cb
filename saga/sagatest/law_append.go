package sagatest

import (
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
)

// ok is the entry of a step that completed.
func ok(step string) saga.Entry {
	return saga.Entry{Step: step, Outcome: retry.Completed, Tries: 1, Result: []byte(`{}`)}
}

var (
	failed  = saga.Failure{Reason: saga.ReasonStep, Step: "c.d", Outcome: retry.Rejected, Status: 402, Code: "declined", Detail: "no money", Problem: "No funds."}
	blocked = saga.Failure{Reason: saga.ReasonTimeout, Step: "a.b", Undo: true, Outcome: retry.Unknown, Code: wire.InProgress}
)

// A situation is one of the ways in which a saga can stand.
type situation struct {
	name string
	put  func(c *check) saga.Record
}

var situations = []situation{
	{"running", func(c *check) saga.Record { return c.append(c.started(), saga.Write{Entries: []saga.Entry{ok("a.b")}}) }},
	{"compensating", func(c *check) saga.Record {
		return c.append(c.started(), saga.Write{Entries: []saga.Entry{ok("a.b")}, Status: saga.Compensating, Cause: &failed})
	}},
	{"stuck", stuck},
	{"completed", finished(saga.Completed)},
	{"compensated", finished(saga.Compensated)},
	{"abandoned", func(c *check) saga.Record {
		return c.change(c.started(), saga.Change{Status: saga.Abandoned, Keep: keep})
	}},
}

func stuck(c *check) saga.Record {
	r := c.append(c.started(), saga.Write{Entries: []saga.Entry{ok("a.b")}, Status: saga.Compensating, Cause: &failed})
	return c.append(r, saga.Write{Status: saga.Stuck, StuckOn: &blocked})
}

func finished(status saga.Status) func(c *check) saga.Record {
	return func(c *check) saga.Record {
		r := c.started()
		if status == saga.Compensated {
			r = c.append(r, saga.Write{Status: saga.Compensating, Cause: &failed})
		}
		return c.append(r, saga.Write{Entries: []saga.Entry{ok("a.b")}, Status: status, Result: []byte(`"done"`), Keep: keep})
	}
}

var appendLaws = []law{
	{"append: what is written is there, and nothing else changes", appendIsRecorded},
	{"append: an outcome and the turn are one write", appendTurns},
	{"append: how a saga ends", appendEnds},
	{"append: with WakeAt it gives the saga up", appendGivesUp},
	{"append: repeated after a lost answer it knows itself", appendRepeated},
	{"append: strangers and zombies change nothing", appendByStrangers},
	{"append: what is over stays over", appendToWhatIsOver},
	{"append: who is late but was not taken over still owns the saga", appendLate},
	{"append: beside a claim it is whole or refused", appendBesideClaim},
}

func appendIsRecorded(c *check) {
	r := c.started()
	entry := saga.Entry{
		Step: "a.b", Outcome: retry.NotSent, Pending: true, Tries: 2, RetryAt: r.Now.Add(time.Hour), At: r.Now,
		Forced: "ann", Nothing: true, Status: 503, Code: wire.StoreUnavailable, Detail: "näh\n", Problem: "wait, please",
	}
	want1 := r
	want1.Revision, want1.Entries = 2, []saga.Entry{entry, ok("c.d")}
	got := c.append(r, saga.Write{Entries: want1.Entries})
	c.wantSame("after the first write", got, want1)

	replaced, undo := ok("a.b"), saga.Entry{Step: "c.d", Undo: true, Outcome: retry.Rejected}
	want2 := want1
	want2.Revision, want2.DeadlineAt = 3, r.Now.Add(2*time.Hour)
	want2.Entries = []saga.Entry{replaced, ok("c.d"), undo}
	got = c.append(got, saga.Write{Entries: []saga.Entry{undo, replaced}, DeadlineAt: want2.DeadlineAt})
	c.wantSame("after the second write", got, want2)

	want3 := want2
	want3.Revision = 4
	c.wantSame("after an empty write", c.append(got, saga.Write{}), want3)
}

func appendTurns(c *check) {
	r := c.started()
	entry := saga.Entry{Step: "c.d", Outcome: retry.Rejected, Tries: 1, Status: 402}
	got := c.append(r, saga.Write{
		Entries: []saga.Entry{entry}, Status: saga.Compensating, Cause: &failed, DeadlineAt: r.Now.Add(24 * time.Hour),
	})
	expect := r
	expect.Revision, expect.Status, expect.Turned = 2, saga.Compensating, got.Turned
	expect.Cause, expect.DeadlineAt, expect.Entries = &failed, r.Now.Add(24*time.Hour), []saga.Entry{entry}
	c.wantSame("the turned saga", got, expect)
	c.wantDuring("Turned", got.Turned, r, got)
	later := c.append(got, saga.Write{Entries: []saga.Entry{ok("a.b")}})
	want(c, "Turned is the first turn", later.Turned.Sub(got.Turned).Abs() < time.Microsecond, true)
	c.wantFailure("Cause", later.Cause, failed)
}

func appendGivesUp(c *check) {
	r := c.started()
	w := saga.Write{Revision: 2, Entries: []saga.Entry{ok("a.b")}, WakeAt: r.Now.Add(time.Minute)}
	c.must("Append", c.journal.Append(c.Context(), owner(r), w))
	expect := r
	expect.Revision, expect.Entries, expect.WakeAt = 2, w.Entries, w.WakeAt
	expect.Engine, expect.Clean = saga.EngineID{}, true
	c.wantUnchanged(expect)
	c.must("Append repeated", c.journal.Append(c.Context(), owner(r), w))
	next := saga.Write{Revision: 3, Entries: []saga.Entry{ok("c.d")}}
	c.wantErr("Append of who gave the saga up", c.journal.Append(c.Context(), owner(r), next), saga.ErrLeaseLost)
	c.wantUnchanged(expect)
	want(c, "sagas of the engine", len(c.list(saga.ListRequest{Engine: r.Engine})), 0)
	// A verb wakes it.
	woken := c.change(expect, saga.Change{Status: saga.Running, Cancel: true})
	want(c, "Clean after a verb", woken.Clean, true)
	claimed := c.claim(c.beat(long), 10)
	want(c, "claimed after a verb", len(claimed), 1)
	c.wantErr("Append repeated after a claim", c.journal.Append(c.Context(), owner(r), w), saga.ErrLeaseLost)
}

func (c *check) wantFailure(what string, got *saga.Failure, expect saga.Failure) {
	c.Helper()
	if got == nil || *got != expect {
		c.Fatalf("%s = %v, want %v", what, got, expect)
	}
}

func appendEnds(c *check) {
	r := finished(saga.Completed)(c)
	want(c, "Result", string(r.Result), `"done"`)
	if got := r.ExpiresAt.Sub(r.FinishedAt); (got - keep).Abs() > time.Second {
		c.Fatalf("ExpiresAt - FinishedAt = %v, want %v", got, keep)
	}
	r = stuck(c)
	want(c, "FinishedAt of a stuck saga is zero", r.FinishedAt.IsZero(), false)
	want(c, "ExpiresAt of a stuck saga is zero", r.ExpiresAt.IsZero(), true)
	c.wantFailure("StuckOn", r.StuckOn, blocked)
	c.wantFailure("Cause", r.Cause, failed)
}

func appendRepeated(c *check) {
	r := c.started()
	w := saga.Write{Revision: 2, Entries: []saga.Entry{ok("a.b")}}
	was := c.append(r, w)
	c.must("Append repeated", c.journal.Append(c.Context(), owner(r), w))
	c.wantUnchanged(was)
	w = saga.Write{Revision: 3, Status: saga.Completed, Result: []byte(`1`), Keep: keep}
	was = c.append(was, w)
	c.must("Append of the end repeated", c.journal.Append(c.Context(), owner(r), w))
	c.wantUnchanged(was)
}

func appendByStrangers(c *check) {
	r := c.append(c.started(), saga.Write{Entries: []saga.Entry{ok("a.b")}})
	write := func(what string, o saga.Owner, revision int64) {
		c.Helper()
		w := saga.Write{Revision: revision, Status: saga.Completed, Entries: []saga.Entry{ok("x.y")}, Keep: keep}
		c.wantErr("Append "+what, c.journal.Append(c.Context(), o, w), saga.ErrLeaseLost)
		c.wantUnchanged(r)
	}
	o := owner(r)
	write("by another engine", saga.Owner{ID: o.ID, Engine: newEngine(), Fence: o.Fence}, 3)
	write("at another fence", saga.Owner{ID: o.ID, Engine: o.Engine, Fence: o.Fence + 1}, 3)
	write("at an older fence", saga.Owner{ID: o.ID, Engine: o.Engine, Fence: o.Fence - 1}, 3)
	write("of a revision that is past", o, 1)
	write("of a revision to come", o, 4)
	write("to an absent saga", saga.Owner{ID: saga.ID{1}, Engine: o.Engine, Fence: 1}, 2)

	c.must("Leave", c.journal.Leave(c.Context(), r.Engine))
	r = c.claim(c.beat(long), 1)[0]
	write("by an owner that was taken over", o, r.Revision)
	write("by an owner that was taken over, of its own next revision", o, 3)
	write("by an owner that was taken over, of the next revision", o, r.Revision+1)
}

func appendToWhatIsOver(c *check) {
	for _, s := range situations[2:] {
		was := s.put(c)
		w := saga.Write{Revision: was.Revision + 1, Status: saga.Running}
		c.wantErr("Append to a saga that is "+s.name, c.journal.Append(c.Context(), owner(was), w), saga.ErrLeaseLost)
		c.wantUnchanged(was)
	}
}

func appendLate(c *check) {
	r := c.start(c.beat(gone))
	c.eventually("the end of the lease", func() bool { return c.read(r.ID).Now.Sub(r.Now) > time.Millisecond })
	c.append(r, saga.Write{Entries: []saga.Entry{ok("a.b")}})
}

func appendBesideClaim(c *check) {
	for range 20 {
		r, other := c.start(c.beat(gone)), c.beat(long)
		time.Sleep(time.Millisecond)
		var claimed []saga.Record
		var appended, claimErr error
		together(2, func(i int) {
			if i == 0 {
				appended = c.journal.Append(c.Context(), owner(r), saga.Write{Revision: 2, Entries: []saga.Entry{ok("a.b")}})
				return
			}
			claimed, claimErr = c.journal.Claim(c.Context(), saga.ClaimRequest{Engine: other, Plans: []saga.PlanHash{planOf("checkout")}, Limit: 1})
		})
		c.must("Claim", claimErr)
		now := c.read(r.ID)
		want(c, "the entry is there", len(now.Entries) == 1, appended == nil)
		if len(claimed) == 1 {
			want(c, "the new owner sees the entry", len(claimed[0].Entries), len(now.Entries))
			want(c, "Revision", now.Revision, int64(2+len(now.Entries)))
		}
		c.claim(other, 1) // a claim that met the write may have passed the saga over
	}
}
