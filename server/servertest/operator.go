package servertest

import (
	"bytes"
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var operatorRules = []rule{
	{"operator: a stuck key gets the state of the resolution", resolveTheStuck},
	{"operator: only a stuck key at the expected fence is resolved", resolveNothingElse},
	{"operator: one of 32 concurrent resolutions wins", resolutionsRace},
	{"operator: a resolution repeated with the same token succeeds again", resolveRepeated},
	{"operator: the owner of a resolved key has lost it", resolvedOwnerIsFenced},
	{"operator: a tombstone made by Resolve is kept as long as one made by Cancel", resolvedTombstoneStays},
	{"operator: Forget deletes every key but a live one, and the key is new again", forgetAllButTheLiving},
	{"operator: absent keys are not found", operatorOnAbsent},
	{"operator: the audit log has actor and reason, and outlives the record", auditOutlivesRecords},
	{"attention: a key is counted and listed exactly while it needs a person", attentionFollowsKeys},
	{"attention: a dead letter is listed until its key is forgotten or swept", deadLettersAreListed},
	{"operator: one of 32 concurrent deferrals of an unknown key wins", deferralsRace},
	{"operator: only an unknown key is deferred", deferNothingElse},
	{"operator: the lease of a key ends when the key becomes unknown", unknownIsFree},
	{"operator: only Opaque claims keep their route and memo", memosOfOpaqueClaims},
}

var someone = store.Audit{Verb: store.VerbResolve, Actor: "ann", Reason: "looked at the bank's portal"}

// resolution returns a request to resolve r to a state, by a new token.
func resolution(r store.Record, to store.State) store.ResolveRequest {
	req := store.ResolveRequest{ID: r.ID, From: r.Fence, To: to, Token: newToken(), Keep: keep, By: someone}
	if to == store.StateCompleted {
		req.Answer, req.ReplayFor = store.Answer{Status: 201, Envelope: []byte("said so")}, keep
	}
	return req
}

func (c *check) resolve(req store.ResolveRequest) store.Record {
	c.Helper()
	r, resolved, err := c.store.Resolve(c.Context(), req)
	c.must("Resolve", err)
	if !resolved {
		c.Fatalf("Resolve of a stuck key = false, want true; record: %s", describe(r))
	}
	return r
}

func stuck(r store.Record, s situation) bool {
	return s.dead || r.State == store.StateUnknown || r.State == store.StateQuarantined
}

func resolveTheStuck(c *check) {
	for _, s := range everyState {
		for _, to := range []store.State{store.StateCompleted, store.StateReleased, store.StateCancelled} {
			for _, maybeRan := range []bool{false, true} {
				before := s.put(c)
				if !stuck(before, s) {
					continue
				}
				req := resolution(before, to)
				req.MaybeRan, req.RecoveryAttempts = maybeRan, len(s.name)
				got := c.resolve(req)
				expect := before
				expect.State, expect.Token, expect.Fence, expect.RecoveryAttempts, expect.MaybeRan = to, req.Token, before.Fence+1, req.RecoveryAttempts, maybeRan
				expect.Answer = req.Answer
				expect.ReplayUntil, expect.ExpiresAt = got.ReplayUntil, got.ExpiresAt // below, and by another rule
				if diff := difference(got, expect); diff != "" {
					c.Errorf("a key %s resolved to State %d: %s", s.name, to, diff)
				}
				replayable := got.ReplayUntil.Sub(got.Now)
				want(c, "replayable for about an hour", replayable > keep-long && replayable <= keep, to == store.StateCompleted)
				c.wantUnchanged(got)
			}
		}
	}
}

func resolveNothingElse(c *check) {
	for _, s := range everyState {
		before := s.put(c)
		req := resolution(before, store.StateReleased)
		if stuck(before, s) {
			req.From-- // a person decided from the earlier record
		}
		got, resolved, err := c.store.Resolve(c.Context(), req)
		c.must("Resolve of a key "+s.name, err)
		want(c, "Resolve of a key "+s.name, resolved, false)
		if diff := difference(got, before); diff != "" {
			c.Errorf("Resolve of a key %s: %s", s.name, diff)
		}
		c.wantUnchanged(before)
		want(c, "entries in the log", len(c.auditLog(before.ID)), 0)
	}
}

func resolutionsRace(c *check) {
	for range 10 {
		before := putSettled(giveUp)(c)
		var wins atomic.Int32
		runAtOnce(32, func(i int) {
			to := []store.State{store.StateCompleted, store.StateReleased}[i%2]
			_, resolved, err := c.store.Resolve(c.Context(), resolution(before, to))
			if err != nil {
				c.Errorf("Resolve: error = %v, want none", err)
			}
			if resolved {
				wins.Add(1)
			}
		})
		want(c, "winners", wins.Load(), 1)
		want(c, "Fence", c.read(before.ID).Fence, before.Fence+1)
		want(c, "entries in the log", len(c.auditLog(before.ID)), 1)
	}
}

func resolveRepeated(c *check) {
	req := resolution(putSettled(giveUp)(c), store.StateCompleted)
	first := c.resolve(req)
	again := c.resolve(req)
	if diff := difference(again, first); diff != "" {
		c.Errorf("a repeated resolution: %s", diff)
	}
	want(c, "entries in the log", len(c.auditLog(req.ID)), 1)
}

func resolvedOwnerIsFenced(c *check) {
	for _, to := range []store.State{store.StateCompleted, store.StateReleased, store.StateCancelled} {
		dead := c.claimDead(store.Opaque)
		after := c.resolve(resolution(dead, to))
		c.wantErr("Settle by the owner of before", c.store.Settle(c.Context(), owner(dead), completion(200, "late")), store.ErrLeaseLost)
		want(c, "leases lost", len(c.renew([]store.Owner{owner(dead)}, long).Lost), 1)
		c.wantUnchanged(after)
	}
	free := c.resolve(resolution(c.claimDead(store.Opaque), store.StateReleased))
	want(c, "Fence of who takes a released key over", c.takeOver(request(free.ID), free.Fence).Fence, free.Fence+1)
}

func resolvedTombstoneStays(c *check) {
	for _, expiring := range []bool{true, false} {
		c.expiring = expiring
		got := c.resolve(resolution(c.claimDead(store.Opaque), store.StateCancelled))
		left := got.ExpiresAt.Sub(got.Now)
		want(c, "kept for about an hour", left > keep-long && left <= keep, true)
	}
	released := c.claimDead(store.Keyed)
	got := c.resolve(resolution(released, store.StateReleased))
	want(c, "ExpiresAt of a released key", sameTime(got.ExpiresAt, released.ExpiresAt), true)
}

func forgetAllButTheLiving(c *check) {
	for _, s := range everyState {
		before := s.put(c)
		alive := before.State == store.StateInProgress && !s.dead
		_, forgotten, err := c.store.Forget(c.Context(), before.ID, before.Fence-1, someone)
		c.must("Forget from a fence that has passed", err)
		want(c, "Forget from a fence that has passed", forgotten, false)
		c.wantUnchanged(before)

		got, forgotten, err := c.store.Forget(c.Context(), before.ID, before.Fence, someone)
		c.must("Forget of a key "+s.name, err)
		want(c, "Forget of a key "+s.name, forgotten, !alive)
		if diff := difference(got, before); diff != "" {
			c.Errorf("Forget of a key %s: %s", s.name, diff)
		}
		if alive {
			c.wantUnchanged(before)
			continue
		}
		c.wantAbsent(before.ID)
		want(c, "Fence of the next owner", c.claim(request(before.ID)).Fence, 1)
	}
}

func operatorOnAbsent(c *check) {
	_, ok, err := c.store.Resolve(c.Context(), resolution(store.Record{ID: newID(), Fence: 1}, store.StateReleased))
	c.wantErr("Resolve of an absent key", err, store.ErrNotFound)
	want(c, "Resolve of an absent key", ok, false)
	_, ok, err = c.store.Forget(c.Context(), newID(), 1, someone)
	c.wantErr("Forget of an absent key", err, store.ErrNotFound)
	want(c, "Forget of an absent key", ok, false)
	ok, err = c.store.Defer(c.Context(), newID(), 1, long)
	c.wantErr("Defer of an absent key", err, store.ErrNotFound)
	want(c, "Defer of an absent key", ok, false)
}

func (c *check) auditLog(id store.ID) []store.AuditEntry {
	c.Helper()
	entries, err := c.store.Reader().AuditPage(c.Context(), store.AuditRequest{ID: id, Limit: 100})
	c.must("AuditPage", err)
	return entries
}

func auditOutlivesRecords(c *check) {
	before := putSettled(giveUp)(c)
	other := putSettled(giveUp)(c)
	after := c.resolve(resolution(before, store.StateReleased))
	c.resolve(resolution(other, store.StateCancelled))
	forget := store.Audit{Verb: store.VerbForget, Actor: "bob", Reason: "a test key"}
	_, _, err := c.store.Forget(c.Context(), before.ID, after.Fence, forget)
	c.must("Forget", err)
	c.wantAbsent(before.ID)

	wanted := []store.AuditEntry{
		{ID: before.ID, Audit: forget, From: store.StateReleased, Fence: after.Fence},
		{ID: before.ID, Audit: someone, From: store.StateUnknown, To: store.StateReleased, Fence: after.Fence},
	}
	entries := c.auditLog(before.ID)
	want(c, "entries of the key", len(entries), len(wanted))
	for i, e := range entries {
		if e.At.Before(before.CreatedAt) || e.At.After(c.storeNow()) {
			c.Errorf("entry %d is of %v, not between claim and now", i, e.At)
		}
		e.At, e.Number = time.Time{}, 0 // the law of readers is about the numbers
		want(c, "entry", e, wanted[i])
	}
	all, err := c.store.Reader().AuditPage(c.Context(), store.AuditRequest{Limit: 2})
	c.must("AuditPage of all keys", err)
	want(c, "entries of all keys, at most two", len(all), 2)
	want(c, "the youngest entry's key", all[0].ID, before.ID)
	want(c, "the next entry's key", all[1].ID, other.ID)
}

func (c *check) list(req store.ListRequest) []store.Record {
	c.Helper()
	records, err := c.store.Reader().List(c.Context(), req)
	c.must("List", err)
	return records
}

func inState(records []store.Record, states ...store.State) []store.Record {
	return slices.DeleteFunc(slices.Clone(records), func(r store.Record) bool { return !slices.Contains(states, r.State) })
}

// wantAttention checks the counts of the keys that need a person, and the lists of these keys.
func (c *check) wantAttention(when string, unknown, quarantined, deadLetters []store.ID) {
	c.Helper()
	a, err := c.store.Reader().Attention(c.Context())
	c.must("Attention", err)
	want(c, when+": unknown keys", a.Unknown, int64(len(unknown)))
	want(c, when+": quarantined keys", a.Quarantined, int64(len(quarantined)))
	want(c, when+": dead letters", a.DeadLetters, int64(len(deadLetters)))
	if none := len(unknown)+len(quarantined)+len(deadLetters) == 0; a.Oldest < 0 || none && a.Oldest > 0 {
		c.Errorf("%s: the oldest has waited for %v", when, a.Oldest)
	}
	for _, tt := range []struct {
		req  store.ListRequest
		want []store.ID
	}{
		{store.ListRequest{States: []store.State{store.StateUnknown}}, unknown},
		{store.ListRequest{States: []store.State{store.StateQuarantined}}, quarantined},
		{store.ListRequest{DeadLetters: true}, deadLetters},
	} {
		tt.req.Limit = 100
		var got []store.ID
		for _, r := range c.list(tt.req) {
			got = append(got, r.ID)
		}
		byBytes := func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) }
		slices.SortFunc(got, byBytes)
		slices.SortFunc(tt.want, byBytes)
		if !slices.Equal(got, tt.want) {
			c.Errorf("%s: listed %v, want %v", when, got, tt.want)
		}
	}
}

func attentionFollowsKeys(c *check) {
	for _, s := range everyState {
		r := s.put(c)
		if r.State == store.StateUnknown || r.State == store.StateQuarantined {
			_, _, err := c.store.Forget(c.Context(), r.ID, r.Fence, someone)
			c.must("Forget", err)
		}
	}
	c.wantAttention("after keys in every other state", nil, nil, nil)
	var unknown, quarantined []store.ID
	for range 3 {
		gaveUp, died, killed := putSettled(giveUp)(c), c.claimDead(store.Opaque), c.claimDead(store.Keyed)
		c.quarantine(grave(died, store.StateUnknown))
		c.quarantine(grave(killed, store.StateQuarantined))
		unknown, quarantined = append(unknown, gaveUp.ID, died.ID), append(quarantined, killed.ID)
	}
	c.wantAttention("after six unknown and three quarantined keys", slices.Clone(unknown), slices.Clone(quarantined), nil)
	a, err := c.store.Reader().Attention(c.Context())
	c.must("Attention", err)
	want(c, "the oldest has waited since a run died", a.Oldest > 0, true)

	c.resolve(resolution(c.read(unknown[0]), store.StateCompleted))
	c.resolve(resolution(c.read(unknown[1]), store.StateReleased))
	c.resolve(resolution(c.read(quarantined[0]), store.StateCancelled))
	c.cancel(unknown[2])
	_, _, err = c.store.Forget(c.Context(), quarantined[1], c.read(quarantined[1]).Fence, someone)
	c.must("Forget", err)
	c.wantAttention("after all but four moved on", unknown[3:], quarantined[2:], nil)

	again := c.takeOver(request(unknown[1]), c.read(unknown[1]).Fence)
	c.settle(owner(again), giveUp)
	c.claim(request(quarantined[1]))
	c.wantAttention("after one is unknown again", append([]store.ID{unknown[1]}, unknown[3:]...), quarantined[2:], nil)
}

// deadLetter completes a run that gave the work up.
var deadLetter = store.Settlement{State: store.StateCompleted, Answer: store.Answer{Status: 202}, ReplayFor: keep, DeadLetter: true}

func deadLettersAreListed(c *check) {
	putSettled(completion(202, "no letter"))(c)
	released := deadLetter
	released.State = store.StateReleased // whose answer is not stored
	putSettled(released)(c)
	one, two := putSettled(deadLetter)(c), putSettled(deadLetter)(c)
	c.expiring = true
	short := deadLetter
	short.ReplayFor = gone
	swept := putSettled(short)(c)
	c.expiring = false
	c.wantAttention("after three", nil, nil, []store.ID{one.ID, two.ID, swept.ID})
	c.untilExpired(swept)
	_, err := c.store.Sweep(c.Context(), 1000)
	c.must("Sweep", err)
	c.wantAbsent(swept.ID)
	_, _, err = c.store.Forget(c.Context(), one.ID, one.Fence, someone)
	c.must("Forget", err)
	c.settle(owner(c.claim(request(one.ID))), completion(200, "at last"))
	c.wantAttention("after one was swept, and one runs again", nil, nil, []store.ID{two.ID})
}

// oldestFirst is the order of lists.
func oldestFirst(a, b store.Record) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}

func deferralsRace(c *check) {
	for range 3 {
		before := putSettled(giveUp)(c)
		var wins atomic.Int32
		runAtOnce(32, func(int) {
			won, err := c.store.Defer(c.Context(), before.ID, before.Fence, long)
			if err != nil {
				c.Errorf("Defer: error = %v, want none", err)
			}
			if won {
				wins.Add(1)
			}
		})
		want(c, "winners", wins.Load(), 1)
		r := c.read(before.ID)
		want(c, "deferred for a minute", r.LeaseLeft() > long/2 && r.LeaseLeft() <= long, true)
		c.resolve(resolution(r, store.StateReleased)) // Defer does not lock the record
	}
	unknown := putSettled(giveUp)(c)
	for range 2 {
		won, err := c.store.Defer(c.Context(), unknown.ID, unknown.Fence, brief)
		c.must("Defer", err)
		want(c, "Defer of a free key", won, true)
		c.eventually("the time to look into it ends", func() bool { r := c.read(unknown.ID); return r.LeaseLeft() <= 0 })
	}
}

func deferNothingElse(c *check) {
	for _, s := range everyState {
		before := s.put(c)
		from := before.Fence
		if before.State == store.StateUnknown {
			from--
		}
		won, err := c.store.Defer(c.Context(), before.ID, from, long)
		c.must("Defer of a key "+s.name, err)
		want(c, "Defer of a key "+s.name, won, false)
		c.wantUnchanged(before)
	}
}

func unknownIsFree(c *check) {
	r := putSettled(giveUp)(c)
	want(c, "the lease of an unknown record is over", r.LeaseLeft() <= 0, true)
	want(c, "it ended after the claim", r.LeaseUntil.Before(r.CreatedAt), false)
}

func memosOfOpaqueClaims(c *check) {
	const route, memo = "POST /charges", "order \x00 42"
	described := func(id store.ID, effect store.Effect) store.ClaimRequest {
		req := request(id)
		req.Effect, req.Route, req.Memo, req.Lease = effect, route, []byte(memo), gone
		return req
	}
	for _, effect := range []store.Effect{store.Transactional, store.Keyed, store.Opaque} {
		wantRoute, wantMemo := "", ""
		if effect == store.Opaque {
			wantRoute, wantMemo = route, memo
		}
		if c.routes {
			wantRoute = route
		}
		claimed := c.claim(described(newID(), effect))
		other := c.claimDead(store.Keyed)
		for _, r := range []store.Record{claimed, c.read(claimed.ID), c.takeOver(described(other.ID, effect), 1), c.read(other.ID)} {
			want(c, "Route of a claim that is "+effect.String(), r.Route, wantRoute)
			want(c, "Memo of a claim that is "+effect.String(), string(r.Memo), wantMemo)
		}
	}
	opaque := c.claim(described(newID(), store.Opaque))
	c.untilDead(opaque.ID)
	r := c.takeOver(request(opaque.ID), 1)
	want(c, "Route after a take-over by another class", r.Route, "")
	want(c, "Memo after a take-over by another class", len(r.Memo), 0)
}
