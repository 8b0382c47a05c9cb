package servertest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var claimRules = []rule{
	{"claim: the record has fence 1 and the values of the request", claimIsRecorded},
	{"claim: one of 32 concurrent claims wins, 50 times", oneClaimWins},
	{"claim: a duplicate gets the record and changes nothing", duplicateChangesNothing},
	{"claim: a claim repeated with the same token wins again", repeatedClaimKnowsItself},
	{"claim: a repeated claim does not win after its token lost the key", formerOwnerIsAStranger},
	{"claim: a key first sent before the window never runs", oldKeyNeverRuns},
	{"claim: the window does not apply to completed keys", windowIsForAbsentKeys},
	{"claim: lengths of time up to MaxRetention are accepted", longestTimes},
	{"claim: an asynchronous claim acts like any other", asynchronousClaim},
}

// asynchronousClaim needs no crash: what a store may forget in one is its own matter.
func asynchronousClaim(c *check) {
	for _, settle := range []store.Settlement{completion(200, "ok"), release} {
		req := request(newID())
		req.Effect, req.Asynchronous = store.Transactional, true
		r, won, err := c.store.Claim(c.Context(), req)
		c.must("Claim", err)
		want(c, "won", won, true)
		r.Asynchronous = false // the store decides
		c.wantUnchanged(r)
		dup, won, err := c.store.Claim(c.Context(), request(req.ID))
		c.must("Claim of a duplicate", err)
		want(c, "Claim of a duplicate: won", won, false)
		if diff := difference(dup, r); diff != "" {
			c.Errorf("record of a duplicate: %s", diff)
		}
		req.Asynchronous = false
		again, won, err := c.store.Claim(c.Context(), req)
		c.must("Claim repeated", err)
		want(c, "Claim repeated: won", won, true)
		if diff := difference(again, r); diff != "" {
			c.Errorf("record of a repeated claim, which is durable: %s", diff)
		}
		c.settle(owner(r), settle)
		want(c, "State", c.read(req.ID).State, settle.State)
	}
	dead := putDead(store.Transactional)(c)
	req := request(dead.ID)
	req.Asynchronous = true
	want(c, "Asynchronous after a take-over", c.takeOver(req, dead.Fence).Asynchronous, false)
}

func claimIsRecorded(c *check) {
	req := request(newID())
	req.FirstSent, req.Window = c.storeNow().Add(-time.Minute), time.Hour
	r := c.claim(req)
	if got, want := r.LeaseUntil.Sub(r.Now), req.Lease; got > want || got <= 0 {
		c.Errorf("lease left = %v, want at most %v", got, want)
	}
	expect := store.Record{
		ID: req.ID, State: store.StateInProgress, Effect: req.Effect, Fingerprint: req.Fingerprint, Token: req.Token, Fence: 1,
		Parent: req.Parent, CreatedAt: r.CreatedAt, FirstSent: req.FirstSent, LeaseUntil: r.LeaseUntil, ExpiresAt: r.ExpiresAt,
	}
	if diff := difference(r, expect); diff != "" {
		c.Errorf("claimed record: %s", diff)
	}
	if got, want := r.ExpiresAt.Sub(r.CreatedAt), req.Keep; (got - want).Abs() > time.Second {
		c.Errorf("ExpiresAt - CreatedAt = %v, want %v", got, want)
	}
	c.wantUnchanged(r)
}

func oneClaimWins(c *check) {
	for range 50 {
		id := newID()
		var wins atomic.Int32
		tokens := make([]store.Token, 32)
		seen := make([]store.Token, len(tokens))
		runAtOnce(len(tokens), func(i int) {
			req := request(id)
			tokens[i] = req.Token
			r, won, err := c.store.Claim(c.Context(), req)
			if err != nil {
				c.Errorf("Claim: error = %v, want none", err)
				return
			}
			seen[i] = r.Token
			if won {
				wins.Add(1)
			}
			if won && r.Token != req.Token {
				c.Errorf("winner's record has token %x, want its own, %x", r.Token, req.Token)
			}
		})
		want(c, "winners", wins.Load(), 1)
		winner := c.read(id).Token
		for i, token := range seen {
			if token != winner {
				c.Fatalf("claim %d saw owner %x, want %x", i, token, winner)
			}
		}
	}
}

func duplicateChangesNothing(c *check) {
	for _, s := range everyState {
		before := s.put(c)
		r, won, err := c.store.Claim(c.Context(), request(before.ID))
		c.must("Claim of a key "+s.name, err)
		want(c, "Claim of a key "+s.name+": won", won, false)
		if diff := difference(r, before); diff != "" {
			c.Errorf("Claim of a key %s: %s", s.name, diff)
		}
		c.wantUnchanged(before)
	}
}

func repeatedClaimKnowsItself(c *check) {
	req := request(newID())
	req.Lease = gone
	first := c.claim(req)
	c.untilDead(req.ID) // late, but no other owner took the key
	again := c.claim(req)
	if diff := difference(again, first); diff != "" {
		c.Fatalf("repeated claim: %s", diff)
	}
	next := request(req.ID)
	won := c.takeOver(next, 1)
	_, _, err := c.store.TakeOver(c.Context(), next, 1)
	c.must("TakeOver repeated", err)
	again = c.claim(next)
	if diff := difference(again, won); diff != "" {
		c.Fatalf("claim after a take-over by the same token: %s", diff)
	}
}

func formerOwnerIsAStranger(c *check) {
	stranger := func(name string, req store.ClaimRequest) {
		c.Helper()
		_, won, err := c.store.Claim(c.Context(), req)
		c.must("Claim "+name, err)
		want(c, "Claim "+name+": won", won, false)
	}
	req := request(newID())
	o := owner(c.claim(req))
	c.settle(o, release)
	stranger("after a release", req)
	c.takeOver(request(req.ID), 1)
	stranger("after a take-over", req)

	req = request(newID())
	c.settle(owner(c.claim(req)), completion(200, "done"))
	stranger("after a completion", req)

	req = request(newID())
	req.Lease = gone
	c.claim(req)
	c.untilDead(req.ID)
	c.quarantine(store.QuarantineRequest{ID: req.ID, From: 1, To: store.StateUnknown})
	stranger("after a quarantine", req)

	cancel := store.CancelRequest{ID: newID(), Token: newToken(), Keep: keep}
	_, _, err := c.store.Cancel(c.Context(), cancel)
	c.must("Cancel", err)
	req = request(cancel.ID)
	req.Token = cancel.Token
	stranger("by the token of a tombstone", req)
}

func oldKeyNeverRuns(c *check) {
	now := c.storeNow()
	req := request(newID())
	req.FirstSent, req.Window = now.Add(-time.Hour), time.Hour-time.Minute
	_, won, err := c.store.Claim(c.Context(), req)
	c.wantErr("Claim of a key that is too old", err, store.ErrExpired)
	want(c, "Claim of a key that is too old: won", won, false)
	c.wantAbsent(req.ID)

	req.Window = time.Hour + time.Minute
	c.claim(req)
}

func windowIsForAbsentKeys(c *check) {
	r := c.claimNew()
	c.settle(owner(r), completion(201, "made"))
	req := request(r.ID)
	req.FirstSent, req.Window = r.Now.Add(-time.Hour), time.Minute
	got, won, err := c.store.Claim(c.Context(), req)
	if errors.Is(err, store.ErrExpired) || won {
		c.Fatalf("late retry of a completed key: won = %v, error = %v, want the record", won, err)
	}
	c.must("Claim", err)
	want(c, "status of the completed key", got.Answer.Status, 201)
}

func longestTimes(c *check) {
	req := request(newID())
	req.FirstSent, req.Window, req.Keep = c.storeNow().Add(-time.Minute), store.MaxRetention, store.MaxRetention
	r := c.claim(req)
	near := func(what string, got time.Duration) {
		c.Helper()
		if (got - store.MaxRetention).Abs() > time.Second {
			c.Errorf("%s = %v, want %v", what, got, store.MaxRetention)
		}
	}
	near("ExpiresAt - CreatedAt", r.ExpiresAt.Sub(r.CreatedAt))
	end := completion(200, "done")
	end.ReplayFor, end.KeepAnswer = store.MaxRetention, store.MaxRetention
	c.settle(owner(r), end)
	r = c.read(req.ID)
	near("ReplayUntil - Now", r.ReplayUntil.Sub(r.Now))
	near("AnswerUntil - Now", r.AnswerUntil.Sub(r.Now))

	cancel := store.CancelRequest{ID: newID(), Token: newToken(), Keep: store.MaxRetention}
	_, _, err := c.store.Cancel(c.Context(), cancel)
	c.must("Cancel", err)
	r = c.read(cancel.ID)
	near("ExpiresAt - Now of a tombstone", r.ExpiresAt.Sub(r.Now))

	r = c.claimNew()
	c.settle(owner(r), giveUp)
	deferred, err := c.store.Defer(c.Context(), r.ID, r.Fence, store.MaxRetention)
	c.must("Defer", err)
	want(c, "Defer by MaxRetention", deferred, true)
	r = c.read(r.ID)
	near("LeaseLeft of a deferred key", r.LeaseLeft())
}
