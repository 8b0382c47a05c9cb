package servertest

import (
	"sync/atomic"

	"github.com/fanonce/fanonce/server/store"
)

var cancelRules = []rule{
	{"cancel: an absent key gets a tombstone, and never runs", cancelOfAbsent},
	{"cancel: each state becomes what it must, and the record of before is returned", cancelOfEachState},
	{"cancel: a repeated cancel finds its own tombstone", cancelRepeats},
	{"cancel: an undone completed key becomes a tombstone", cancelOfUndone},
	{"cancel: a cancel and a first claim never both win", cancelRacesClaim},
	{"cancel: a cancel and a take-over never both win", cancelRacesTakeOver},
	{"cancel: one of 32 makes the tombstone", oneCancelWins},
}

func cancelOfAbsent(c *check) {
	req := store.CancelRequest{ID: newID(), Token: newToken(), Keep: keep}
	before, existed, err := c.store.Cancel(c.Context(), req)
	c.must("Cancel of an absent key", err)
	want(c, "Cancel of an absent key: existed", existed, false)
	if diff := difference(before, store.Record{}); diff != "" {
		c.Errorf("Cancel of an absent key returned a record: %s", diff)
	}
	r := c.read(req.ID)
	expect := store.Record{
		ID: req.ID, State: store.StateCancelled, Token: req.Token, Fence: 1,
		CreatedAt: r.CreatedAt, LeaseUntil: r.LeaseUntil, ExpiresAt: r.ExpiresAt, ReplayUntil: r.ReplayUntil,
	}
	if diff := difference(r, expect); diff != "" {
		c.Errorf("tombstone: %s", diff)
	}
	if left := r.ExpiresAt.Sub(r.Now); left <= 0 || left > req.Keep {
		c.Errorf("tombstone's ExpiresAt - Now = %v, want at most %v", left, req.Keep)
	}
	got, won, err := c.store.Claim(c.Context(), request(req.ID))
	c.must("Claim of a tombstone", err)
	want(c, "Claim of a tombstone: won", won, false)
	want(c, "state that the late claim sees", got.State, store.StateCancelled)
	c.wantUnchanged(r)
}

func cancelOfEachState(c *check) {
	for _, s := range everyState {
		was := s.put(c)
		req := store.CancelRequest{ID: was.ID, Token: newToken(), Keep: 2 * keep} // longer than the claim's
		before, existed, err := c.store.Cancel(c.Context(), req)
		c.must("Cancel of a key "+s.name, err)
		want(c, "Cancel of a key "+s.name+": existed", existed, true)
		if diff := difference(before, was); diff != "" {
			c.Errorf("record before the cancel of a key %s: %s", s.name, diff)
		}
		if !s.cancellable {
			c.wantUnchanged(was)
			continue
		}
		after := c.read(was.ID)
		expect := was
		expect.State, expect.Token, expect.Fence = store.StateCancelled, req.Token, was.Fence+1
		expect.LeaseUntil, expect.ExpiresAt = after.LeaseUntil, after.ExpiresAt
		if s.dead {
			expect.RecoveryAttempts++
			expect.MaybeRan = was.Effect != store.Transactional
		}
		if diff := difference(after, expect); diff != "" {
			c.Errorf("cancelled record of a key %s: %s", s.name, diff)
		}
		if after.ExpiresAt.Before(was.ExpiresAt) {
			c.Errorf("the cancel of a key %s brought its end forward by %v", s.name, was.ExpiresAt.Sub(after.ExpiresAt))
		}
		if kept := after.ExpiresAt.Sub(before.Now); kept < req.Keep {
			c.Errorf("the tombstone of a key %s is kept for %v, want %v: a late forward call could run", s.name, kept, req.Keep)
		}
	}
}

func cancelRepeats(c *check) {
	for _, put := range []func(*check) store.Record{nil, putSettled(release)} {
		id := newID()
		if put != nil {
			id = put(c).ID
		}
		req := store.CancelRequest{ID: id, Token: newToken(), Keep: keep}
		_, _, err := c.store.Cancel(c.Context(), req)
		c.must("Cancel", err)
		first := c.read(id)
		before, existed, err := c.store.Cancel(c.Context(), req)
		c.must("Cancel repeated", err)
		want(c, "Cancel repeated: existed", existed, true)
		want(c, "token that the repeated cancel sees", before.Token, req.Token)
		c.wantUnchanged(first)
	}
}

// cancelOfUndone: the key promises its effect to nobody any more, and a further undo still learns that the call ran.
// A refusal had no effect, and stays.
func cancelOfUndone(c *check) {
	was := putSettled(completion(201, "ok"))(c)
	req := store.CancelRequest{ID: was.ID, Token: newToken(), Keep: 2 * keep, Undone: true}
	before, _, err := c.store.Cancel(c.Context(), req)
	c.must("Cancel with Undone", err)
	if diff := difference(before, was); diff != "" {
		c.Errorf("record before the Cancel with Undone: %s", diff)
	}
	after := c.read(was.ID)
	want(c, "state of an undone key", after.State, store.StateCancelled)
	want(c, "fence of an undone key", after.Fence, was.Fence+1)
	want(c, "status of an undone key", after.Answer.Status, 201)
	if kept := after.ExpiresAt.Sub(before.Now); kept < req.Keep {
		c.Errorf("the tombstone of an undone key is kept for %v, want %v", kept, req.Keep)
	}
	fate, err := store.FateOf(after, true)
	c.must("FateOf an undone key", err)
	want(c, "fate that a further undo is told", fate, store.Ran)
	_, _, err = c.store.Cancel(c.Context(), req)
	c.must("Cancel with Undone repeated", err)
	c.wantUnchanged(after)
	c.wantErr("Settle of an undone key", c.store.Settle(c.Context(), owner(was), completion(201, "ok")), store.ErrLeaseLost)

	refusal := putSettled(completion(402, "no"))(c)
	_, _, err = c.store.Cancel(c.Context(), store.CancelRequest{ID: refusal.ID, Token: newToken(), Keep: keep, Undone: true})
	c.must("Cancel of a refusal with Undone", err)
	c.wantUnchanged(refusal)
}

func cancelRacesClaim(c *check) {
	for range 50 {
		id := newID()
		var won, existed bool
		var before store.Record
		var claimErr, cancelErr error
		runAtOnce(2, func(i int) {
			if i == 0 {
				_, won, claimErr = c.store.Claim(c.Context(), request(id))
			} else {
				before, existed, cancelErr = c.store.Cancel(c.Context(), store.CancelRequest{ID: id, Token: newToken(), Keep: keep})
			}
		})
		c.must("Claim", claimErr)
		c.must("Cancel", cancelErr)
		want(c, "claimed, as against cancelled", won, existed)
		if won {
			want(c, "state that the cancel saw", before.State, store.StateInProgress)
			want(c, "state", c.read(id).State, store.StateInProgress)
		} else {
			want(c, "state", c.read(id).State, store.StateCancelled)
		}
	}
}

func cancelRacesTakeOver(c *check) {
	for i := range 40 {
		put := putSettled(release)
		if i%2 == 0 {
			put = putDead(store.Transactional)
		}
		r := put(c)
		var won bool
		var before store.Record
		var takeErr, cancelErr error
		runAtOnce(2, func(i int) {
			if i == 0 {
				_, won, takeErr = c.store.TakeOver(c.Context(), request(r.ID), r.Fence)
			} else {
				before, _, cancelErr = c.store.Cancel(c.Context(), store.CancelRequest{ID: r.ID, Token: newToken(), Keep: keep})
			}
		})
		c.must("TakeOver", takeErr)
		c.must("Cancel", cancelErr)
		after := c.read(r.ID)
		want(c, "fence after one take-over or cancel", after.Fence, r.Fence+1)
		want(c, "taken over, as against cancelled", won, after.State == store.StateInProgress)
		want(c, "the cancel saw the successor", before.Fence == r.Fence+1, won)
	}
}

func oneCancelWins(c *check) {
	for i := range 10 {
		id, fence := newID(), int64(0)
		if i%2 == 0 {
			r := putSettled(release)(c)
			id, fence = r.ID, r.Fence
		}
		var first atomic.Int32
		runAtOnce(32, func(int) {
			before, existed, err := c.store.Cancel(c.Context(), store.CancelRequest{ID: id, Token: newToken(), Keep: keep})
			if err != nil {
				c.Errorf("Cancel: error = %v, want none", err)
			}
			if !existed || before.State != store.StateCancelled {
				first.Add(1)
			}
		})
		want(c, "cancels that found the key not cancelled", first.Load(), 1)
		want(c, "fence", c.read(id).Fence, fence+1)
	}
}
