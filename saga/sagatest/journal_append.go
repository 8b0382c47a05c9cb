package sagatest

import (
	"bytes"
	"context"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

// ok is the entry of a step that completed.
func ok(step string) journal.Entry {
	return journal.Entry{Step: step, Outcome: retry.Completed, Attempts: 1, Result: []byte(`{}`)}
}

var (
	failed = journal.Failure{
		Reason: journal.ReasonStep, Step: "c.d", Outcome: retry.Rejected, Status: 402, Code: "declined", Detail: "no money", Problem: "No funds.",
		Body: []byte(`{"code":"declined","detail":"No funds."}`),
	}
	blocked = journal.Failure{Reason: journal.ReasonTimeout, Step: "a.b", Undo: true, Outcome: retry.Unknown, Code: wire.InProgress, BodyTooLong: true}
)

// A situation is one of the ways in which a saga can stand.
type situation struct {
	name string
	put  func(c *check) journal.Record
}

var situations = []situation{
	{"running", func(c *check) journal.Record {
		return c.append(c.startOwned(), journal.Write{Entries: []journal.Entry{ok("a.b")}})
	}},
	{"compensating", func(c *check) journal.Record {
		return c.append(c.startOwned(), journal.Write{Entries: []journal.Entry{ok("a.b")}, Status: journal.Compensating, Cause: &failed})
	}},
	{"stuck", makeStuck},
	{"completed", finishAs(journal.Completed)},
	{"compensated", finishAs(journal.Compensated)},
	{"abandoned", func(c *check) journal.Record {
		return c.change(c.startOwned(), journal.Change{Status: journal.Abandoned, Keep: keep})
	}},
}

func makeStuck(c *check) journal.Record {
	r := c.append(c.startOwned(), journal.Write{Entries: []journal.Entry{ok("a.b")}, Status: journal.Compensating, Cause: &failed})
	return c.append(r, journal.Write{Status: journal.Stuck, StuckOn: &blocked})
}

func finishAs(status journal.Status) func(c *check) journal.Record {
	return func(c *check) journal.Record {
		r := c.startOwned()
		if status == journal.Compensated {
			r = c.append(r, journal.Write{Status: journal.Compensating, Cause: &failed})
		}
		return c.append(r, journal.Write{Entries: []journal.Entry{ok("a.b")}, Status: status, Result: []byte(`"done"`), Keep: keep})
	}
}

var appendRules = []rule{
	{"append: what is written is there, and nothing else changes", appendIsRecorded},
	{"append: an outcome and the failure are one write", appendFails},
	{"append: how a saga ends", appendEnds},
	{"append: with WakeAt it gives the saga up", appendGivesUp},
	{"append: with WakeAt a stuck saga is clean", appendSticksClean},
	{"append: repeated after a lost answer it knows itself", appendRepeated},
	{"append: strangers and zombies change nothing", appendByStrangers},
	{"append: what is over stays over", appendToWhatIsOver},
	{"append: who is late but was not taken over still owns the saga", appendLate},
	{"append: beside a claim it is whole or refused", appendBesideClaim},
	{"append: bodies of refusals survive", appendBodies},
	{"append: one write can have much to say", appendMuch},
}

func appendIsRecorded(c *check) {
	r := c.startOwned()
	entry := journal.Entry{
		Step: "a.b", Outcome: retry.NotSent, Pending: true, Attempts: 2, RetryAt: r.Now.Add(time.Hour), At: r.Now,
		Forced: "ann", Nothing: true, Status: 503, Code: wire.StoreUnavailable, Detail: "näh\n", Problem: "wait, please",
		Body: []byte("\x00{}\xff"), FirstSent: r.Now.Add(-time.Hour), Skipped: true,
	}
	want1 := r
	want1.Revision, want1.Entries = 2, []journal.Entry{entry, ok("c.d")}
	got := c.append(r, journal.Write{Entries: want1.Entries})
	c.wantSame("after the first write", got, want1)

	replaced, undo := ok("a.b"), journal.Entry{Step: "c.d", Undo: true, Outcome: retry.Rejected}
	want2 := want1
	want2.Revision, want2.DeadlineAt = 3, r.Now.Add(2*time.Hour)
	want2.Entries = []journal.Entry{replaced, ok("c.d"), undo}
	got = c.append(got, journal.Write{Entries: []journal.Entry{undo, replaced}, DeadlineAt: want2.DeadlineAt})
	c.wantSame("after the second write", got, want2)

	want3 := want2
	want3.Revision = 4
	c.wantSame("after an empty write", c.append(got, journal.Write{}), want3)
}

func appendFails(c *check) {
	r := c.startOwned()
	entry := journal.Entry{Step: "c.d", Outcome: retry.Rejected, Attempts: 1, Status: 402}
	got := c.append(r, journal.Write{
		Entries: []journal.Entry{entry}, Status: journal.Compensating, Cause: &failed, DeadlineAt: r.Now.Add(24 * time.Hour),
	})
	expect := r
	expect.Revision, expect.Status, expect.FailedAt = 2, journal.Compensating, got.FailedAt
	expect.Cause, expect.DeadlineAt, expect.Entries = &failed, r.Now.Add(24*time.Hour), []journal.Entry{entry}
	c.wantSame("the failed saga", got, expect)
	c.wantDuring("FailedAt", got.FailedAt, r, got)
	later := c.append(got, journal.Write{Entries: []journal.Entry{ok("a.b")}})
	want(c, "FailedAt is the first failure", later.FailedAt.Sub(got.FailedAt).Abs() < time.Microsecond, true)
	c.wantFailure("Cause", later.Cause, failed)
}

func appendGivesUp(c *check) {
	r := c.startOwned()
	w := journal.Write{Revision: 2, Entries: []journal.Entry{ok("a.b")}, WakeAt: r.Now.Add(time.Minute)}
	c.must("Append", c.journal.Append(c.Context(), owner(r), w))
	expect := r
	expect.Revision, expect.Entries, expect.WakeAt = 2, w.Entries, w.WakeAt
	expect.Engine, expect.Clean = journal.EngineID{}, true
	c.wantUnchanged(expect)
	c.must("Append repeated", c.journal.Append(c.Context(), owner(r), w))
	next := journal.Write{Revision: 3, Entries: []journal.Entry{ok("c.d")}}
	c.wantErr("Append of who gave the saga up", c.journal.Append(c.Context(), owner(r), next), journal.ErrLeaseLost)
	c.wantUnchanged(expect)
	want(c, "sagas of the engine", len(c.list(journal.ListRequest{Engine: r.Engine})), 0)
	// A verb wakes it.
	woken := c.change(expect, journal.Change{Status: journal.Running, Cancel: true})
	want(c, "Clean after a verb", woken.Clean, true)
	claimed := c.claim(c.heartbeat(long), 10)
	want(c, "claimed after a verb", len(claimed), 1)
	c.wantErr("Append repeated after a claim", c.journal.Append(c.Context(), owner(r), w), journal.ErrLeaseLost)
}

func appendSticksClean(c *check) {
	r := c.startOwned()
	w := journal.Write{Revision: 2, Entries: []journal.Entry{ok("a.b")}, Status: journal.Stuck, StuckOn: &blocked, WakeAt: r.Now}
	c.must("Append", c.journal.Append(c.Context(), owner(r), w))
	got := c.read(r.ID)
	want(c, "Status", got.Status, journal.Stuck)
	want(c, "Clean of the stuck saga", got.Clean, true)
	want(c, "WakeAt of the stuck saga is zero", got.WakeAt.IsZero(), true)
	c.must("Append repeated", c.journal.Append(c.Context(), owner(r), w))
	c.wantUnchanged(got)
	want(c, "claimed while it is stuck", len(c.claim(c.heartbeat(long), 10)), 0)
	resumed := c.change(got, journal.Change{Status: journal.Running})
	want(c, "Clean after a verb", resumed.Clean, true)
	claimed := c.claim(c.heartbeat(long), 10)
	want(c, "claimed after a verb", len(claimed), 1)
	want(c, "Clean of what was claimed", claimed[0].Clean, true)
	w = journal.Write{Revision: claimed[0].Revision + 1, Status: journal.Completed, WakeAt: r.Now, Keep: keep}
	if err := c.journal.Append(c.Context(), owner(claimed[0]), w); err == nil {
		c.Fatalf("a write that ends the saga has a WakeAt")
	}
}

func (c *check) wantFailure(what string, got *journal.Failure, expect journal.Failure) {
	c.Helper()
	if got == nil || !reflect.DeepEqual(*got, expect) {
		c.Fatalf("%s = %v, want %v", what, got, expect)
	}
}

func appendEnds(c *check) {
	r := finishAs(journal.Completed)(c)
	want(c, "Result", string(r.Result), `"done"`)
	if got := r.ExpiresAt.Sub(r.FinishedAt); (got - keep).Abs() > time.Second {
		c.Fatalf("ExpiresAt - FinishedAt = %v, want %v", got, keep)
	}
	r = makeStuck(c)
	want(c, "FinishedAt of a stuck saga is zero", r.FinishedAt.IsZero(), false)
	want(c, "ExpiresAt of a stuck saga is zero", r.ExpiresAt.IsZero(), true)
	c.wantFailure("StuckOn", r.StuckOn, blocked)
	c.wantFailure("Cause", r.Cause, failed)
}

func appendRepeated(c *check) {
	r := c.startOwned()
	w := journal.Write{Revision: 2, Entries: []journal.Entry{ok("a.b")}}
	was := c.append(r, w)
	c.must("Append repeated", c.journal.Append(c.Context(), owner(r), w))
	c.wantUnchanged(was)
	w = journal.Write{Revision: 3, Status: journal.Completed, Result: []byte(`1`), Keep: keep}
	was = c.append(was, w)
	c.must("Append of the end repeated", c.journal.Append(c.Context(), owner(r), w))
	c.wantUnchanged(was)
}

func appendByStrangers(c *check) {
	r := c.append(c.startOwned(), journal.Write{Entries: []journal.Entry{ok("a.b")}})
	write := func(what string, o journal.Owner, revision int64) {
		c.Helper()
		w := journal.Write{Revision: revision, Status: journal.Completed, Entries: []journal.Entry{ok("x.y")}, Keep: keep}
		c.wantErr("Append "+what, c.journal.Append(c.Context(), o, w), journal.ErrLeaseLost)
		c.wantUnchanged(r)
	}
	o := owner(r)
	write("by another engine", journal.Owner{ID: o.ID, Engine: newEngine(), Fence: o.Fence}, 3)
	write("at another fence", journal.Owner{ID: o.ID, Engine: o.Engine, Fence: o.Fence + 1}, 3)
	write("at an older fence", journal.Owner{ID: o.ID, Engine: o.Engine, Fence: o.Fence - 1}, 3)
	write("of a revision that is past", o, 1)
	write("of a revision to come", o, 4)
	write("to an absent saga", journal.Owner{ID: journal.ID{1}, Engine: o.Engine, Fence: 1}, 2)

	c.must("Leave", c.journal.Leave(c.Context(), r.Engine))
	r = c.claim(c.heartbeat(long), 1)[0]
	write("by an owner that was taken over", o, r.Revision)
	write("by an owner that was taken over, of its own next revision", o, 3)
	write("by an owner that was taken over, of the next revision", o, r.Revision+1)
}

func appendToWhatIsOver(c *check) {
	for _, s := range situations[2:] {
		was := s.put(c)
		w := journal.Write{Revision: was.Revision + 1, Status: journal.Running}
		c.wantErr("Append to a saga that is "+s.name, c.journal.Append(c.Context(), owner(was), w), journal.ErrLeaseLost)
		c.wantUnchanged(was)
	}
}

func appendLate(c *check) {
	r := c.start(c.heartbeat(gone))
	c.eventually("the end of the lease", func() bool { return c.read(r.ID).Now.Sub(r.Now) > time.Millisecond })
	c.append(r, journal.Write{Entries: []journal.Entry{ok("a.b")}})
}

func appendBesideClaim(c *check) {
	for range 20 {
		r, other := c.start(c.heartbeat(gone)), c.heartbeat(long)
		c.eventually("the end of the lease", func() bool { return c.read(r.ID).Now.Sub(r.Now) > time.Millisecond })
		var claimed []journal.Record
		var appended, claimErr error
		runTogether(2, func(i int) {
			if i == 0 {
				appended = c.journal.Append(c.Context(), owner(r), journal.Write{Revision: 2, Entries: []journal.Entry{ok("a.b")}})
				return
			}
			claimed, claimErr = c.journal.Claim(c.Context(), journal.ClaimRequest{Engine: other, Plans: []journal.PlanHash{planOf("checkout")}, Limit: 1})
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

// A journal holds slices of its own: nobody changes what it has through theirs.
func appendBodies(c *check) {
	body := func(n int) []byte { return bytes.Repeat([]byte("\x00{\xff}"), n/4) }
	refused := journal.Entry{Step: "a.b", Outcome: retry.Rejected, Attempts: 1, Status: 402, Body: body(journal.MaxBodyBytes)}
	tooLong := journal.Entry{Step: "c.d", Outcome: retry.Rejected, Attempts: 1, Status: 402, BodyTooLong: true}
	cause, obstacle := failed, failed
	cause.Body, obstacle.Body = body(journal.MaxBodyBytes), body(8)
	was := c.startOwned()
	r := c.append(was, journal.Write{
		Entries: []journal.Entry{refused, tooLong}, Status: journal.Compensating, Cause: &cause, StuckOn: &obstacle,
	})
	clear(refused.Body)
	clear(cause.Body)
	clear(obstacle.Body)
	for range 2 {
		refused.Body, cause.Body, obstacle.Body = body(journal.MaxBodyBytes), body(journal.MaxBodyBytes), body(8)
		expect := was
		expect.Revision, expect.Status, expect.FailedAt = 2, journal.Compensating, r.FailedAt
		expect.Entries, expect.Cause, expect.StuckOn = []journal.Entry{refused, tooLong}, &cause, &obstacle
		c.wantSame("the saga", r, expect)
		clear(r.Entries[0].Body)
		clear(r.Cause.Body)
		clear(r.StuckOn.Body)
		r = c.read(r.ID)
	}
}

// After an outage of the journal a saga of many steps writes all that it missed at once.
func appendMuch(c *check) {
	r := c.startOwned()
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	var entries []journal.Entry
	for i := range 32 {
		entries = append(entries, journal.Entry{
			Step: "a.b" + strconv.Itoa(i), Outcome: retry.Rejected, Attempts: 1, Detail: strings.Repeat("d", journal.MaxDetailBytes),
			Body: bytes.Repeat([]byte("b"), journal.MaxBodyBytes), Result: bytes.Repeat([]byte("r"), 30<<10),
		})
	}
	for range 2 { // the second finds as much there
		r.Revision++
		c.must("Append", c.journal.Append(ctx, owner(r), journal.Write{Revision: r.Revision, Entries: entries}))
	}
	r.Entries = entries
	c.wantUnchanged(r)
}
