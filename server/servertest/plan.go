package servertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var planRules = []rule{
	{"plan: claim, effects and answer commit together", planCommitsTogether},
	{"plan: a record in the way is returned, and nothing changes", planFindsRecord},
	{"plan: of plans and claims one wins", planRaces},
	{"plan: repeated after a lost answer it knows itself", planRepeats},
	{"plan: it can release the key, and drop its effects", planReleases},
	{"plan: a request that is too old commits nothing", planTooOld},
	{"plan: an undo and a plan never both win", planRacesCancel},
}

// plan returns a plan with one effect.
func (c *check) plan(id store.ID) store.Plan {
	c.Helper()
	p := c.plans.Plan()
	c.must("Add", c.effects.Add(p.NewContext(c.Context()), id))
	return p
}

// commit commits a plan of an absent key.
func (c *check) commit(p store.Plan, req store.ClaimRequest, s store.Settlement) store.Record {
	c.Helper()
	r, first, err := p.Commit(c.Context(), req, s)
	c.must("Commit", err)
	want(c, "Commit of an absent key", first, true)
	return r
}

func planCommitsTogether(c *check) {
	req := request(newID())
	req.FirstSent, req.Window = c.storeNow().Add(-time.Second).Truncate(time.Microsecond), long
	p := c.plans.Plan()
	ctx := p.NewContext(c.Context())
	for range 3 {
		c.must("Add", c.effects.Add(ctx, req.ID))
	}
	c.wantAbsent(req.ID)
	c.wantEffects(req.ID, 0)
	s := completion(201, "made")
	s.KeepAnswer = long
	got := c.commit(p, req, s)
	want(c, "State", got.State, store.StateCompleted)
	want(c, "Fence", got.Fence, 1)
	want(c, "Token", got.Token, req.Token)
	want(c, "Fingerprint", got.Fingerprint, req.Fingerprint)
	want(c, "Parent", got.Parent, req.Parent)
	want(c, "FirstSent", got.FirstSent.Equal(req.FirstSent), true)
	want(c, "ReplayUntil", sameTime(got.ReplayUntil, got.CreatedAt.Add(s.ReplayFor)), true)
	want(c, "ExpiresAt", sameTime(got.ExpiresAt, got.CreatedAt.Add(req.Keep)), true)
	want(c, "AnswerUntil", sameTime(got.AnswerUntil, got.CreatedAt.Add(s.KeepAnswer)), true)
	want(c, "answer", string(got.Answer.Envelope), "made")
	c.wantUnchanged(got)
	c.wantEffects(req.ID, 3)
	if _, known := c.effects.(noEffects); !known && c.effects.Add(ctx, req.ID) == nil {
		c.Error("a write after Commit: error = nil, want one")
	}
}

func planFindsRecord(c *check) {
	completed, released, tombstone := c.claimNew(), c.claimNew(), newID()
	c.settle(owner(completed), completion(200, "first"))
	c.settle(owner(released), release)
	c.cancel(tombstone)
	planned := request(newID())
	c.commit(c.plans.Plan(), planned, completion(200, "planned"))
	for _, id := range []store.ID{c.claimNew().ID, c.claimDead(store.Keyed).ID, completed.ID, released.ID, tombstone, planned.ID} {
		before := c.read(id)
		for range 3 {
			got, first, err := c.plan(id).Commit(c.Context(), request(id), completion(201, "second"))
			c.must("Commit", err)
			want(c, "Commit of a key in state "+before.State.String(), first, false)
			if diff := difference(got, before); diff != "" {
				c.Errorf("the record in the way: %s", diff)
			}
		}
		c.wantUnchanged(before)
		c.wantEffects(id, 0)
	}
}

func planRaces(c *check) {
	const rounds, racers = 20, 16
	for range rounds {
		id := newID()
		var planned, claimed atomic.Int32
		var wg sync.WaitGroup
		for i := range racers {
			p := c.plan(id)
			wg.Go(func() {
				var first bool
				var err error
				if i%2 == 0 {
					_, first, err = c.insist(func(ctx context.Context) (store.Record, bool, error) {
						return p.Commit(ctx, request(id), completion(200, "planned"))
					})
				} else {
					_, first, err = c.insist(func(ctx context.Context) (store.Record, bool, error) { return c.store.Claim(ctx, request(id)) })
				}
				switch {
				case err != nil:
					c.Errorf("error = %v, want none", err)
				case first && i%2 == 0:
					planned.Add(1)
				case first:
					claimed.Add(1)
				}
			})
		}
		wg.Wait()
		want(c, "winners", planned.Load()+claimed.Load(), 1)
		c.wantEffects(id, int(planned.Load()))
		if state := c.read(id).State; (state == store.StateCompleted) != (planned.Load() == 1) {
			c.Fatalf("State = %v after %d plans won", state, planned.Load())
		}
	}
}

// insist repeats a call whose key another transaction is deciding about.
func (c *check) insist(do func(ctx context.Context) (store.Record, bool, error)) (r store.Record, ok bool, err error) {
	for end := c.deadline(); ; {
		r, ok, err = do(c.Context())
		if !errors.Is(err, store.ErrInProgress) || time.Now().After(end) {
			return r, ok, err
		}
	}
}

func planRepeats(c *check) {
	for _, s := range []store.Settlement{completion(201, "made"), release} {
		req := request(newID())
		p := c.plan(req.ID)
		first := c.commit(p, req, s)
		for range 3 {
			got := c.commit(p, req, s)
			if diff := difference(got, first); diff != "" {
				c.Errorf("the record of a repeated Commit: %s", diff)
			}
		}
		c.wantEffects(req.ID, 1)
		other := req
		other.Token = newToken()
		_, own, err := p.Commit(c.Context(), other, s)
		c.must("Commit", err)
		want(c, "Commit with another token", own, false)
		c.wantEffects(req.ID, 1)
	}
	lost := request(newID())
	r := c.commit(c.plans.Plan(), lost, release)
	next := c.takeOver(request(lost.ID), r.Fence)
	_, own, err := c.plans.Plan().Commit(c.Context(), lost, release)
	c.must("Commit", err)
	want(c, "Commit by a token that lost the key", own, false)
	c.wantUnchanged(next)
}

func planReleases(c *check) {
	req := request(newID())
	p := c.plan(req.ID)
	p.Discard()
	if _, known := c.effects.(noEffects); !known && c.effects.Add(p.NewContext(c.Context()), req.ID) == nil {
		c.Error("a write after Discard: error = nil, want one")
	}
	got := c.commit(p, req, release)
	want(c, "State", got.State, store.StateReleased)
	want(c, "MaybeRan", got.MaybeRan, false)
	c.wantUnchanged(got)
	c.wantEffects(req.ID, 0)
	c.takeOver(request(req.ID), got.Fence)
	for _, s := range []store.Settlement{giveUp, death} {
		id := newID()
		if _, _, err := c.plans.Plan().Commit(c.Context(), request(id), s); err == nil {
			c.Errorf("Commit to %v: error = nil, want one", s.State)
		}
		c.wantAbsent(id)
	}
}

func planTooOld(c *check) {
	req := request(newID())
	req.FirstSent, req.Window = c.storeNow().Add(-2*long), long
	_, _, err := c.plan(req.ID).Commit(c.Context(), req, completion(200, ""))
	c.wantErr("Commit of a key that is too old", err, store.ErrExpired)
	c.wantAbsent(req.ID)
	c.wantEffects(req.ID, 0)
	req.FirstSent = c.storeNow().Add(-long / 2)
	c.commit(c.plan(req.ID), req, completion(200, ""))
	c.wantEffects(req.ID, 1)
}

func planRacesCancel(c *check) {
	for range 50 {
		id := newID()
		p := c.plan(id)
		var before store.Record
		var existed, first bool
		var planErr, cancelErr error
		var wg sync.WaitGroup
		wg.Go(func() {
			_, first, planErr = c.insist(func(ctx context.Context) (store.Record, bool, error) {
				return p.Commit(ctx, request(id), completion(200, "ran"))
			})
		})
		wg.Go(func() {
			before, existed, cancelErr = c.store.Cancel(c.Context(), store.CancelRequest{ID: id, Token: newToken(), Keep: keep})
		})
		wg.Wait()
		c.must("Commit", planErr)
		c.must("Cancel", cancelErr)
		want(c, "Commit won, and Cancel found the record", first && existed && before.State == store.StateCompleted, first)
		want(c, "Commit won, or Cancel found no record", first || !existed, true)
		n := 0
		if first {
			n = 1
		}
		c.wantEffects(id, n)
	}
}
