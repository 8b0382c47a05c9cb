package servertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var renewRules = []rule{
	{"renew: owners are renewed, and lost owners are named", renewNamesTheLost},
	{"renew: an owner past its lease is renewed if nobody took the key over", renewOfLateOwner},
	{"renew: a renewed key is not taken over", renewKeepsOthersOut},
	{"renew: an empty list renews nothing", renewOfNobody},
	{"renew: a lease is never shortened", renewShortensNothing},
}

// renew calls Renew until every owner is decided, because another call may hold
// a record for a moment. Each answer must name every owner once, or come with
// an error.
func (c *check) renew(owners []store.Owner, lease time.Duration) (all store.Renewal) {
	c.Helper()
	for deadline := c.deadline(); ; time.Sleep(time.Millisecond) {
		got, err := c.store.Renew(c.Context(), owners, lease)
		owners = c.checkRenewal(owners, got)
		all.Renewed, all.Lost = append(all.Renewed, got.Renewed...), append(all.Lost, got.Lost...)
		switch {
		case len(owners) == 0:
			c.must("Renew that decided every owner", err)
			return all
		case err == nil:
			c.Fatalf("Renew left %d owners undecided without an error", len(owners))
		case time.Now().After(deadline):
			c.Fatalf("Renew left %d owners undecided until patience ended: %v", len(owners), err)
		}
	}
}

// checkRenewal returns the owners that are not in got. It fails the rule if got
// names an owner twice, or an owner that was not in the request.
func (c *check) checkRenewal(owners []store.Owner, got store.Renewal) []store.Owner {
	c.Helper()
	left, err := undecidedOwners(owners, got)
	c.must("Renew", err)
	return left
}

func undecidedOwners(owners []store.Owner, got store.Renewal) ([]store.Owner, error) {
	left := slices.Clone(owners)
	for _, o := range slices.Concat(got.Renewed, got.Lost) {
		i := slices.Index(left, o)
		if i < 0 {
			return nil, fmt.Errorf("it named %v with fence %d, want each owner at most once and no other", o.ID, o.Fence)
		}
		left = slices.Delete(left, i, i+1)
	}
	return left, nil
}

func renewNamesTheLost(c *check) {
	alive := c.claimNew()
	var owners, lost []store.Owner
	lose := func(o store.Owner) {
		owners, lost = append(owners, o), append(lost, o)
	}
	lose(store.Owner{ID: newID(), Token: newToken(), Fence: 1}) // swept, or never stored
	owners = append(owners, owner(alive))
	for _, s := range everyState {
		if r := s.put(c); r.State != store.StateInProgress {
			lose(owner(r))
		}
	}
	dead := c.claimDead(store.Keyed)
	next := c.takeOver(request(dead.ID), 1)
	lose(owner(dead))
	lose(store.Owner{ID: next.ID, Token: next.Token, Fence: 1})
	lose(store.Owner{ID: next.ID, Token: newToken(), Fence: 2})

	got := c.renew(owners, 2*long)
	for _, o := range lost {
		if !slices.Contains(got.Lost, o) {
			c.Errorf("Renew did not name %v with fence %d as lost; record: %s", o.ID, o.Fence, c.describe(o.ID))
		}
	}
	want(c, "owners lost", len(got.Lost), len(lost))
	renewed := c.read(alive.ID)
	if left := renewed.LeaseLeft(); left <= long {
		c.Errorf("lease left of the owner = %v, want more than %v", left, long)
	}
	c.wantUnchanged(next)
}

func (c *check) describe(id store.ID) string {
	r, err := c.store.Read(c.Context(), id)
	if err != nil {
		return err.Error()
	}
	return describe(r)
}

func renewOfLateOwner(c *check) {
	late := c.claimDead(store.Keyed)
	want(c, "owners renewed", len(c.renew([]store.Owner{owner(late)}, long).Renewed), 1)
	r := c.read(late.ID)
	if r.LeaseLeft() <= 0 {
		c.Errorf("lease left = %v, want some", r.LeaseLeft())
	}
	want(c, "fence", r.Fence, 1)
	want(c, "RecoveryAttempts", r.RecoveryAttempts, 0)
}

func renewKeepsOthersOut(c *check) {
	late := c.claimDead(store.Keyed)
	for range 20 {
		// Either may come first; both must not win.
		var got store.Renewal
		var taken bool
		var takeErr error
		runAtOnce(2, func(i int) {
			if i == 0 {
				got, _ = c.store.Renew(c.Context(), []store.Owner{owner(late)}, long)
			} else {
				_, taken, takeErr = c.store.TakeOver(c.Context(), request(late.ID), 1)
			}
		})
		c.must("TakeOver", takeErr)
		if len(c.checkRenewal([]store.Owner{owner(late)}, got)) > 0 { // the take-over held the record
			got = c.renew([]store.Owner{owner(late)}, long)
		}
		if taken != (len(got.Lost) == 1) {
			c.Fatalf("taken over = %v while the renewal lost %d owners, want one winner", taken, len(got.Lost))
		}
		late = c.claimDead(store.Keyed)
	}
}

func renewOfNobody(c *check) {
	got, err := c.store.Renew(c.Context(), nil, long)
	c.must("Renew of nobody", err)
	want(c, "owners renewed or lost", len(got.Renewed)+len(got.Lost), 0)
}

// renewShortensNothing checks two renewals that arrive in reverse order.
func renewShortensNothing(c *check) {
	r := c.claimNew()
	c.renew([]store.Owner{owner(r)}, 2*long)
	before := c.read(r.ID)
	got := c.renew([]store.Owner{owner(r)}, brief)
	want(c, "owners renewed", len(got.Renewed), 1)
	c.wantUnchanged(before)
}

var txRenewRules = []rule{
	{"tx renew: a held record leaves the other owners alone", txRenewPassesByHeld},
	{"tx renew: a renewal does not overtake an undo", txRenewWaitsForUndo},
}

// aMoment is how long a renewal may take beside a transaction that holds one of
// its records. It is generous: only a store that waits for the transaction takes
// longer.
const aMoment = 2 * time.Second

func txRenewPassesByHeld(c *check) {
	undo, held, stale := c.claimNew(), owner(c.claimNew()), owner(c.claimNew())
	stale.Token = newToken()
	owners := []store.Owner{stale, held}
	for range 30 {
		owners = append(owners, owner(c.claimNew()))
	}
	rand.Shuffle(len(owners), func(i, j int) { owners[i], owners[j] = owners[j], owners[i] })
	tx := c.run(undo)
	before, _ := c.txCancel(tx, held.ID)
	start := time.Now()
	got, err := c.store.Renew(c.Context(), owners, 2*long)
	if took := time.Since(start); took > aMoment {
		c.Errorf("Renew took %v beside a held record, want at most %v", took, aMoment)
	}
	if err == nil {
		c.Error("Renew with a held record: error = nil, want one")
	}
	want(c, "owners undecided", len(c.checkRenewal(owners, got)), 1)
	want(c, "the undecided owner", c.checkRenewal(owners, got)[0], held)
	want(c, "owners lost", len(got.Lost), 1)
	want(c, "the lost owner", got.Lost[0], stale)
	for _, o := range got.Renewed {
		if r := c.read(o.ID); r.LeaseLeft() <= long {
			c.Errorf("lease left of an owner that was renewed = %v, want more than %v", r.LeaseLeft(), long)
		}
	}
	c.wantUnchanged(before)
	c.must("Rollback", tx.Rollback(c.Context()))
	want(c, "owners renewed after the transaction", len(c.renew([]store.Owner{held}, 2*long).Renewed), 1)
}

// txRenewWaitsForUndo has an owner that is late, and an undo that found the
// owner's lease ended. The undo's conclusion must hold until its transaction
// ends.
func txRenewWaitsForUndo(c *check) {
	for _, commit := range []bool{true, false} {
		undo, forward := c.claimNew(), c.claimDead(store.Keyed)
		tx := c.run(undo)
		c.txCancel(tx, forward.ID)
		owners := []store.Owner{owner(forward)}
		got, _ := c.store.Renew(c.Context(), owners, long)
		want(c, "owners undecided while the undo is open", len(c.checkRenewal(owners, got)), 1)
		c.must("the end of the undo", c.ending(tx, undo, commit)())
		want(c, "owners lost after the undo", len(c.renew(owners, long).Lost) == 1, commit)
	}
}
