package servertest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var settleRules = []rule{
	{"settle: the record has the values of the settlement", settleIsRecorded},
	{"settle: a completion repeated after a lost answer is no error", settleRepeats},
	{"settle: a completed record never changes", completedIsFinal},
	{"settle: an owner whose key was taken over changes nothing", zombiesChangeNothing},
	{"settle: token and fence must both be the owner's", settleChecksTokenAndFence},
	{"settle: an owner past its lease settles if nobody took the key over", lateOwnerSettles},
	{"settle: an owner whose record became unknown settles it if nobody resolved it", ownerSettlesUnknown},
	{"settle: failed attempts are counted until the key is completed or decided about", failedAttemptsStay},
	{"settle: MaybeRan stays set", maybeRanStays},
	{"settle: an owner and its successor never both win", settleRacesTakeOver},
	{"settle: a run that is settled as dead can be taken over at once", settleDies},
}

func settleIsRecorded(c *check) {
	for _, s := range []store.Settlement{completion(402, "no funds"), release, giveUp} {
		r := c.claimNew()
		c.settle(owner(r), s)
		got := c.read(r.ID)
		expect := r
		expect.State, expect.MaybeRan = s.State, s.MaybeRan
		expect.ReplayUntil = got.ReplayUntil
		expect.LeaseUntil = got.LeaseUntil // has no meaning any more
		if s.State == store.StateCompleted {
			expect.Answer = s.Answer
			if left := got.ReplayUntil.Sub(got.Now); left <= 0 || left > s.ReplayFor {
				c.Errorf("ReplayUntil - Now = %v, want at most %v", left, s.ReplayFor)
			}
		}
		if diff := difference(got, expect); diff != "" {
			c.Errorf("record settled to state %d: %s", s.State, diff)
		}
	}
}

func settleRepeats(c *check) {
	r := c.claimNew()
	c.settle(owner(r), completion(200, "first"))
	before := c.read(r.ID)
	for range 3 {
		c.settle(owner(r), completion(200, "first"))
	}
	c.wantUnchanged(before)

	var failed atomic.Int32
	r = c.claimNew()
	runAtOnce(8, func(int) {
		if err := c.store.Settle(c.Context(), owner(r), completion(200, "first")); err != nil {
			failed.Add(1)
		}
	})
	want(c, "completions by one owner at once that failed", failed.Load(), 0)
}

func completedIsFinal(c *check) {
	r := c.claimNew()
	o := owner(r)
	c.settle(o, completion(200, "first"))
	before := c.read(r.ID)
	// The error for the second answer does not matter: the first answer stays.
	_ = c.store.Settle(c.Context(), o, completion(500, "second"))
	c.wantUnchanged(before)
	c.wantErr("Settle to released", c.store.Settle(c.Context(), o, release), store.ErrLeaseLost)
	c.wantErr("Settle to unknown", c.store.Settle(c.Context(), o, giveUp), store.ErrLeaseLost)
	c.cancel(r.ID)
	want(c, "owners lost", len(c.renew([]store.Owner{o}, long).Lost), 1)
	c.wantUnchanged(before)
}

// zombiesChangeNothing wakes owners whose key has moved on without them.
func failedAttemptsStay(c *check) {
	r := c.claimNew()
	want(c, "FailedAttempts of a first claim", r.FailedAttempts, 0)
	for n := 1; n <= 3; n++ {
		c.settle(owner(r), store.Settlement{State: store.StateReleased, FailedAttempts: n})
		want(c, "FailedAttempts of a released key", c.read(r.ID).FailedAttempts, n)
		want(c, "Answer of a released key", c.read(r.ID).Answer.Status, 0)
		r = c.takeOver(request(r.ID), r.Fence)
		want(c, "FailedAttempts after a take-over", r.FailedAttempts, n)
	}
	c.settle(owner(r), store.Settlement{State: store.StateInProgress, FailedAttempts: 3})
	r = c.takeOver(request(r.ID), r.Fence)
	want(c, "FailedAttempts after a death", r.FailedAttempts, 3)
	c.settle(owner(r), completion(200, "at last"))
	want(c, "FailedAttempts of a completed key", c.read(r.ID).FailedAttempts, 0)
}

func zombiesChangeNothing(c *check) {
	for _, fate := range []struct {
		name string
		meet func(zombie store.Record)
	}{
		{"taken over", func(z store.Record) { c.takeOver(request(z.ID), 1) }},
		{"taken over and completed", func(z store.Record) { c.settle(owner(c.takeOver(request(z.ID), 1)), completion(200, "successor")) }},
		{"taken over and released", func(z store.Record) { c.settle(owner(c.takeOver(request(z.ID), 1)), release) }},
		{"quarantined", func(z store.Record) { c.quarantine(grave(z, store.StateQuarantined)) }},
		{"cancelled", func(z store.Record) { c.cancel(z.ID) }},
	} {
		zombie := c.claimDead(store.Keyed)
		fate.meet(zombie)
		before := c.read(zombie.ID)
		for _, s := range []store.Settlement{completion(200, "zombie"), release, giveUp} {
			what := fmt.Sprintf("zombie, %s, settling to state %d", fate.name, s.State)
			c.wantErr(what, c.store.Settle(c.Context(), owner(zombie), s), store.ErrLeaseLost)
		}
		got := c.renew([]store.Owner{owner(zombie)}, long)
		want(c, "owners lost when the zombie was "+fate.name, len(got.Lost), 1)
		c.wantUnchanged(before)
	}
	absent := store.Owner{ID: newID(), Token: newToken(), Fence: 1}
	c.wantErr("Settle of an absent key", c.store.Settle(c.Context(), absent, completion(200, "")), store.ErrLeaseLost)
	c.wantAbsent(absent.ID)
}

func settleChecksTokenAndFence(c *check) {
	r := c.claimNew()
	for _, o := range []store.Owner{
		{ID: r.ID, Token: newToken(), Fence: r.Fence},
		{ID: r.ID, Token: r.Token, Fence: r.Fence + 1},
		{ID: r.ID, Token: r.Token, Fence: 0},
	} {
		c.wantErr("Settle by a stranger", c.store.Settle(c.Context(), o, completion(200, "stranger")), store.ErrLeaseLost)
		c.wantUnchanged(r)
	}
	c.settle(owner(r), completion(200, "owner"))
	stranger := store.Owner{ID: r.ID, Token: newToken(), Fence: r.Fence}
	c.wantErr("completion repeated by a stranger", c.store.Settle(c.Context(), stranger, completion(200, "owner")), store.ErrLeaseLost)
	stranger = store.Owner{ID: r.ID, Token: r.Token, Fence: r.Fence + 1}
	c.wantErr("completion repeated with another fence", c.store.Settle(c.Context(), stranger, completion(200, "owner")), store.ErrLeaseLost)
}

func lateOwnerSettles(c *check) {
	for _, s := range []store.Settlement{completion(200, "late"), release} {
		late := c.claimDead(store.Keyed)
		c.settle(owner(late), s)
		r := c.read(late.ID)
		want(c, "state", r.State, s.State)
		want(c, "RecoveryAttempts of an owner that was only late", r.RecoveryAttempts, 0)
		want(c, "MaybeRan of an owner that was only late", r.MaybeRan, false)
	}
}

// ownerSettlesUnknown lets an owner that was taken for dead say what happened.
func ownerSettlesUnknown(c *check) {
	for _, s := range []store.Settlement{completion(200, "late"), release} {
		late := c.claimDead(store.Opaque)
		before := c.quarantine(grave(late, store.StateUnknown))
		stranger := owner(late)
		stranger.Token = newToken()
		c.wantErr("Settle of an unknown record by a stranger", c.store.Settle(c.Context(), stranger, s), store.ErrLeaseLost)
		c.wantErr("Settle of an unknown record to unknown", c.store.Settle(c.Context(), owner(late), giveUp), store.ErrLeaseLost)
		c.wantUnchanged(before)
		c.settle(owner(late), s)
		r := c.read(late.ID)
		want(c, "state of an unknown record that its owner settled", r.State, s.State)
		want(c, "fence", r.Fence, late.Fence)
		want(c, "status", r.Answer.Status, s.Answer.Status)
		want(c, "envelope", string(r.Answer.Envelope), string(s.Answer.Envelope))
		for _, listed := range c.list(store.ListRequest{States: []store.State{store.StateUnknown, store.StateQuarantined}, Limit: 1000}) {
			if listed.ID == late.ID {
				c.Errorf("a key that its owner settled is still listed for a person")
			}
		}
	}
}

func maybeRanStays(c *check) {
	r := c.claimNew()
	c.settle(owner(r), store.Settlement{State: store.StateReleased, MaybeRan: true})
	for fence := int64(1); fence < 4; fence++ {
		req := request(r.ID)
		req.Effect = store.Transactional
		next := c.takeOver(req, fence)
		want(c, "MaybeRan after a take-over", next.MaybeRan, true)
		c.settle(owner(next), release) // does not describe effects
		want(c, "MaybeRan after a release without effects", c.read(r.ID).MaybeRan, true)
	}
	last := c.takeOver(request(r.ID), 4)
	c.settle(owner(last), completion(200, "at last"))
	want(c, "MaybeRan after a completion", c.read(r.ID).MaybeRan, true)
}

// settleRacesTakeOver lets an owner settle at the moment at which its lease
// ends and a successor tries to take over.
func settleRacesTakeOver(c *check) {
	for range 20 {
		req := request(newID())
		req.Lease = 2 * time.Millisecond
		first := c.claim(req)
		var settleErr, takeErr error
		var taken bool
		runAtOnce(2, func(i int) {
			if i == 0 {
				c.untilDeadQuietly(req.ID)
				settleErr = c.store.Settle(c.Context(), owner(first), completion(200, "first"))
				return
			}
			for deadline := c.deadline(); !taken && takeErr == nil && time.Now().Before(deadline); {
				var r store.Record
				r, taken, takeErr = c.store.TakeOver(c.Context(), request(req.ID), 1)
				if r.State == store.StateCompleted {
					return
				}
				time.Sleep(50 * time.Microsecond)
			}
		})
		c.must("TakeOver", takeErr)
		if taken == (settleErr == nil) {
			c.Fatalf("taken over = %v and Settle error = %v, want one winner", taken, settleErr)
		}
	}
}

// untilDeadQuietly waits for the end of the first owner's lease, or for its
// successor. It is for goroutines, which must not end the rule; an error shows
// in the later checks.
func (c *check) untilDeadQuietly(id store.ID) {
	for deadline := c.deadline(); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		if r, err := c.store.Read(c.Context(), id); err != nil || r.Fence > 1 || r.LeaseLeft() <= 0 {
			return
		}
	}
}

// settleDies ends runs long before their leases end.
func settleDies(c *check) {
	for _, effect := range []store.Effect{store.Transactional, store.Keyed} {
		req := request(newID())
		req.Effect = effect
		r := c.claim(req)
		c.settle(owner(r), death)
		got := c.read(r.ID)
		want(c, "state", got.State, store.StateInProgress)
		want(c, "deaths before they are counted", got.RecoveryAttempts, 0)
		if left := got.LeaseLeft(); left > 0 {
			c.Errorf("lease left of a run that counts as dead = %v, want none", left)
		}
		next := c.takeOver(request(r.ID), 1)
		want(c, "deaths", next.RecoveryAttempts, 1)
		want(c, "MaybeRan", next.MaybeRan, effect != store.Transactional)
		c.wantErr("Settle after the take-over", c.store.Settle(c.Context(), owner(r), death), store.ErrLeaseLost)
		c.wantUnchanged(next)
	}
	r := c.claimNew()
	c.settle(owner(r), death)
	c.quarantine(grave(r, store.StateQuarantined))
}
