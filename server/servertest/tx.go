package servertest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/fanonce/fanonce/server/store"
)

var txRules = slices.Concat(txSettleRules, txCancelRules, txFailureRules, txRenewRules)

var txSettleRules = []rule{
	{"tx: effects and record commit together", txCommitsTogether},
	{"tx: a rollback leaves nothing", txRollbackLeavesNothing},
	{"tx: a lost lease rolls everything back", txLeaseLostRollsBack},
	{"tx: a transaction left open during a take-over changes nothing", txLeftOpen},
	{"tx: an owner and its successor never both commit", txRacesSuccessor},
	{"tx: a completion whose answer was lost can be repeated", txCompletionRepeats},
	{"tx: a run can be released in its transaction", txReleases},
	{"tx: a dead letter commits with its run", txDeadLetter},
	{"tx: a done context begins and commits nothing", txDoneContext},
	{"tx: a commit without a settlement keeps the effects, or says why not", txCommits},
	{"tx: concurrent transactions of several keys do not disturb each other", txSideBySide},
}

// begin opens a transaction, and rolls it back at the end of the test in case
// the rule fails in the middle of it.
func (c *check) begin() (store.Tx, context.Context) {
	c.Helper()
	tx, err := c.txs.Begin(c.Context())
	c.must("Begin", err)
	c.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(c.Context())) })
	return tx, tx.NewContext(c.Context())
}

// run opens a transaction in which the run of r has left one effect.
func (c *check) run(r store.Record) store.Tx {
	c.Helper()
	tx, ctx := c.begin()
	c.must("Add", c.effects.Add(ctx, r.ID))
	return tx
}

func (c *check) wantEffects(id store.ID, n int) {
	c.Helper()
	got, err := c.effects.Count(c.Context(), id)
	c.must("Count", err)
	if got != unknownCount {
		want(c, "effects", got, n)
	}
}

func txCommitsTogether(c *check) {
	r := c.claimNew()
	tx, ctx := c.begin()
	for range 3 {
		c.must("Add", c.effects.Add(ctx, r.ID))
	}
	c.wantUnchanged(r)
	c.wantEffects(r.ID, 0)
	s := completion(201, "made")
	c.must("Tx.Settle", tx.Settle(c.Context(), owner(r), s))
	got := c.read(r.ID)
	want(c, "state", got.State, store.StateCompleted)
	want(c, "answer", string(got.Answer.Envelope), "made")
	if left := got.ReplayUntil.Sub(got.Now); left <= 0 || left > s.ReplayFor {
		c.Errorf("ReplayUntil - Now = %v, want at most %v", left, s.ReplayFor)
	}
	c.wantEffects(r.ID, 3)
	c.must("Err", tx.Err())
	c.must("Rollback after the end", tx.Rollback(c.Context()))
	c.wantUnchanged(got)
	c.wantEffects(r.ID, 3)
}

func txRollbackLeavesNothing(c *check) {
	r, forward := c.claimNew(), newID()
	tx := c.run(r)
	_, _, err := tx.Cancel(c.Context(), store.CancelRequest{ID: forward, Token: newToken(), Keep: keep})
	c.must("Tx.Cancel", err)
	for range 2 {
		c.must("Rollback", tx.Rollback(c.Context()))
	}
	c.wantUnchanged(r)
	c.wantAbsent(forward)
	c.wantEffects(r.ID, 0)
	if err := tx.Settle(c.Context(), owner(r), completion(200, "")); err == nil {
		c.Error("Tx.Settle after a rollback: error = nil, want one")
	}
	c.wantUnchanged(r)
	c.must("Tx.Settle of a second try", c.run(r).Settle(c.Context(), owner(r), completion(200, "")))
	c.wantEffects(r.ID, 1)
}

func txLeaseLostRollsBack(c *check) {
	r, forward := c.claimNew(), newID()
	for _, o := range []store.Owner{
		{ID: r.ID, Token: newToken(), Fence: r.Fence},
		{ID: r.ID, Token: r.Token, Fence: r.Fence + 1},
		{ID: newID(), Token: r.Token, Fence: 1},
	} {
		tx := c.run(r)
		_, _, err := tx.Cancel(c.Context(), store.CancelRequest{ID: forward, Token: newToken(), Keep: keep})
		c.must("Tx.Cancel", err)
		c.wantErr("Tx.Settle by a stranger", tx.Settle(c.Context(), o, completion(200, "")), store.ErrLeaseLost)
		c.wantUnchanged(r)
		c.wantAbsent(forward)
		c.wantEffects(r.ID, 0)
		c.must("Err of a lost lease", tx.Err())
	}
}

func txLeftOpen(c *check) {
	for _, fate := range []func(z store.Record){
		func(z store.Record) { c.takeOver(request(z.ID), 1) },
		func(z store.Record) {
			next := c.takeOver(request(z.ID), 1)
			c.must("Tx.Settle of the successor", c.run(next).Settle(c.Context(), owner(next), completion(200, "successor")))
		},
		func(z store.Record) { c.quarantine(grave(z, store.StateQuarantined)) },
		func(z store.Record) { c.cancel(z.ID) },
	} {
		zombie := c.claimDead(store.Transactional)
		tx := c.run(zombie)
		fate(zombie)
		before := c.read(zombie.ID)
		c.wantErr("Tx.Settle of the zombie", tx.Settle(c.Context(), owner(zombie), completion(200, "zombie")), store.ErrLeaseLost)
		c.wantUnchanged(before)
		n := 0
		if before.State == store.StateCompleted {
			n = 1
		}
		c.wantEffects(zombie.ID, n)
	}
}

func txRacesSuccessor(c *check) {
	for range 20 {
		first := c.claimDead(store.Transactional)
		tx := c.run(first)
		var committed atomic.Int32
		runAtOnce(2, func(i int) {
			if i == 0 {
				err := tx.Settle(c.Context(), owner(first), completion(200, "first"))
				if err == nil {
					committed.Add(1)
				} else if !errors.Is(err, store.ErrLeaseLost) {
					c.Errorf("Tx.Settle: error = %v, want none or %v", err, store.ErrLeaseLost)
				}
				return
			}
			if c.succeed(first) {
				committed.Add(1)
			}
		})
		want(c, "transactions that committed", committed.Load(), 1)
		c.wantEffects(first.ID, 1)
		want(c, "state", c.read(first.ID).State, store.StateCompleted)
	}
}

// succeed takes a dead run over and completes it, and reports whether that was possible.
func (c *check) succeed(dead store.Record) bool {
	r, won, err := c.store.TakeOver(c.Context(), request(dead.ID), dead.Fence)
	if err != nil || !won {
		return false
	}
	tx, err := c.txs.Begin(c.Context())
	if err != nil {
		c.Errorf("Begin: error = %v, want none", err)
		return false
	}
	if err = c.effects.Add(tx.NewContext(c.Context()), r.ID); err == nil {
		err = tx.Settle(c.Context(), owner(r), completion(200, "successor"))
	}
	if err != nil {
		c.Errorf("Tx.Settle of the successor: error = %v, want none", errors.Join(err, tx.Rollback(c.Context())))
	}
	return err == nil
}

func txCompletionRepeats(c *check) {
	r := c.claimNew()
	s := completion(200, "once")
	c.must("Tx.Settle", c.run(r).Settle(c.Context(), owner(r), s))
	before := c.read(r.ID)
	c.settle(owner(r), s)
	c.wantUnchanged(before)
	c.wantEffects(r.ID, 1)
}

func txReleases(c *check) {
	r := c.claimNew()
	c.must("Tx.Settle", c.run(r).Settle(c.Context(), owner(r), release))
	want(c, "state", c.read(r.ID).State, store.StateReleased)
	c.wantEffects(r.ID, 1)
}

func txDeadLetter(c *check) {
	lost, r := c.claimNew(), c.claimNew()
	c.settle(owner(lost), release)
	c.wantErr("Tx.Settle of a lost run", c.run(lost).Settle(c.Context(), owner(lost), deadLetter), store.ErrLeaseLost)
	c.wantAttention("after a run that was rolled back", nil, nil, nil)
	c.must("Tx.Settle", c.run(r).Settle(c.Context(), owner(r), deadLetter))
	c.wantAttention("after a run that committed", nil, nil, []store.ID{r.ID})
}

func txCommits(c *check) {
	kept, dropped, failed, done := newID(), newID(), newID(), newID()
	add := func(id store.ID) (store.Tx, context.Context) {
		tx, ctx := c.begin()
		c.must("Add", c.effects.Add(ctx, id))
		return tx, ctx
	}
	unused, _ := c.begin()
	c.must("Commit of an unused transaction", unused.Commit(c.Context()))
	tx, _ := add(kept)
	c.must("Commit", tx.Commit(c.Context()))
	c.must("Rollback after the commit", tx.Rollback(c.Context()))
	c.wantEffects(kept, 1)
	tx, _ = add(dropped)
	c.must("Rollback", tx.Rollback(c.Context()))
	if err := tx.Commit(c.Context()); err == nil {
		c.Error("Commit after the rollback: error = nil, want one")
	}
	c.wantEffects(dropped, 0)
	tx, _ = add(done)
	if err := tx.Commit(c.cancelledContext()); err == nil {
		c.Error("Commit with a done context: error = nil, want one")
	}
	c.must("Rollback", tx.Rollback(c.Context()))
	c.wantEffects(done, 0)
	breaker, ok := c.effects.(Breaker)
	if !ok {
		return
	}
	for _, f := range txFailures {
		tx, ctx := add(failed)
		c.must("Break: "+f.name, breaker.Break(ctx, f.failure))
		c.wantFailure("Tx.Commit: "+f.name, tx.Commit(c.Context()), f.failure)
		c.wantEffects(failed, 0)
	}
}

func txDoneContext(c *check) {
	done := c.cancelledContext()
	_, err := c.txs.Begin(done)
	c.wantErr("Begin with a done context", err, context.Canceled)
	r, forward := c.claimNew(), newID()
	tx := c.run(r)
	_, _, err = tx.Cancel(done, store.CancelRequest{ID: forward, Token: newToken(), Keep: keep})
	c.wantErr("Tx.Cancel with a done context", err, context.Canceled)
	c.must("Rollback with a done context", tx.Rollback(done))
	tx = c.run(r)
	c.wantErr("Tx.Settle with a done context", tx.Settle(done, owner(r), completion(200, "")), context.Canceled)
	c.must("Rollback", tx.Rollback(c.Context()))
	c.wantUnchanged(r)
	c.wantAbsent(forward)
	c.wantEffects(r.ID, 0)
}

func txSideBySide(c *check) {
	runs := make([]store.Record, 4)
	for i := range runs {
		runs[i] = c.claimNew()
	}
	runAtOnce(len(runs), func(i int) {
		tx, err := c.txs.Begin(c.Context())
		if err != nil {
			c.Errorf("Begin: error = %v, want none", err)
			return
		}
		err = c.effects.Add(tx.NewContext(c.Context()), runs[i].ID)
		if i%2 == 0 {
			err = errors.Join(err, tx.Settle(c.Context(), owner(runs[i]), completion(200, "")))
		} else {
			err = errors.Join(err, tx.Rollback(c.Context()))
		}
		if err != nil {
			c.Errorf("run %d: error = %v, want none", i, err)
		}
	})
	for i, r := range runs {
		c.wantEffects(r.ID, 1-i%2)
	}
}
