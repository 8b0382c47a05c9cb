package servertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var txCancelRules = []rule{
	{"tx cancel: the cancel commits with the run that undoes", txCancelCommits},
	{"tx cancel: each state becomes what it must, and the record of before is returned", txCancelOfEachState},
	{"tx cancel: an undone key commits or rolls back with the undo", txCancelOfUndone},
	{"tx cancel: the cancel is invisible before the commit, and a claim waits", txCancelHoldsClaim},
	{"tx cancel: a take-over waits for the end of the transaction", txCancelHoldsTakeOver},
	{"tx cancel: a claim and a take-over return ErrInProgress soon", txCancelIsToldSoon},
	{"tx cancel: the record of a running key holds until the transaction ends", txCancelHoldsOwner},
	{"tx cancel: two undo runs of one key at the same time", txCancelTwice},
	{"tx cancel: two undo runs in opposite order both end", txCancelCrosswise},
}

func (c *check) txCancel(tx store.Tx, id store.ID) (store.Record, bool) {
	c.Helper()
	before, existed, err := tx.Cancel(c.Context(), store.CancelRequest{ID: id, Token: newToken(), Keep: keep})
	c.must("Tx.Cancel", err)
	return before, existed
}

func txCancelCommits(c *check) {
	undo, forward := c.claimNew(), newID()
	tx := c.run(undo)
	_, existed := c.txCancel(tx, forward)
	want(c, "Tx.Cancel of an absent key: existed", existed, false)
	c.wantAbsent(forward)
	c.must("Tx.Settle", tx.Settle(c.Context(), owner(undo), completion(200, "nothing to undo")))
	want(c, "state of the forward key", c.read(forward).State, store.StateCancelled)
	want(c, "state of the undo key", c.read(undo.ID).State, store.StateCompleted)
	c.wantEffects(undo.ID, 1)
}

func txCancelOfEachState(c *check) {
	for _, s := range everyState {
		was, undo := s.put(c), c.claimNew()
		tx := c.run(undo)
		before, existed := c.txCancel(tx, was.ID)
		want(c, "Tx.Cancel of a key "+s.name+": existed", existed, true)
		if diff := difference(before, was); diff != "" {
			c.Errorf("record before the cancel of a key %s: %s", s.name, diff)
		}
		c.wantUnchanged(was)
		c.must("Tx.Settle", tx.Settle(c.Context(), owner(undo), completion(200, "")))
		if !s.cancellable {
			c.wantUnchanged(was)
			continue
		}
		after := c.read(was.ID)
		want(c, "state of a key "+s.name+" after the cancel", after.State, store.StateCancelled)
		want(c, "fence of a key "+s.name+" after the cancel", after.Fence, was.Fence+1)
	}
}

func txCancelOfUndone(c *check) {
	for _, commit := range []bool{false, true} {
		was, undo := putSettled(completion(200, "ok"))(c), c.claimNew()
		tx := c.run(undo)
		_, existed := c.txCancel(tx, was.ID) // the barrier, before the work
		want(c, "Tx.Cancel of a completed key: existed", existed, true)
		before, _, err := tx.Cancel(c.Context(), store.CancelRequest{ID: was.ID, Token: newToken(), Keep: keep, Undone: true})
		c.must("Tx.Cancel with Undone", err)
		if diff := difference(before, was); diff != "" {
			c.Errorf("record before the Tx.Cancel with Undone: %s", diff)
		}
		c.wantUnchanged(was)
		if !commit {
			c.must("Tx.Rollback", tx.Rollback(c.Context()))
			c.wantUnchanged(was)
			continue
		}
		c.must("Tx.Settle", tx.Settle(c.Context(), owner(undo), completion(200, "")))
		after := c.read(was.ID)
		want(c, "state of an undone key", after.State, store.StateCancelled)
		want(c, "fence of an undone key", after.Fence, was.Fence+1)
	}
}

// held starts do, which must not succeed before the transaction has ended: it
// waits or fails. end ends the transaction; held returns do's error.
func (c *check) held(what string, do func() error, end func() error) error {
	c.Helper()
	var ended atomic.Bool
	result := make(chan error, 1)
	go func() {
		err := do()
		if err == nil && !ended.Load() {
			err = fmt.Errorf("%w: %s", errTooEarly, what)
		}
		result <- err
	}()
	letOthersCome(10 * time.Millisecond)
	ended.Store(true)
	endErr := end()
	err := <-result
	c.must("the end of the transaction", endErr)
	if errors.Is(err, errTooEarly) {
		c.Fatal(err)
	}
	return err
}

// letOthersCome gives other goroutines time to reach a lock. A store cannot tell when they have. If the time is not
// enough, the rule shows less, but does not fail.
func letOthersCome(d time.Duration) { time.Sleep(d) }

var errTooEarly = errors.New("done before the transaction ended")

func txCancelHoldsClaim(c *check) {
	for _, commit := range []bool{true, false} {
		undo, req := c.claimNew(), request(newID())
		tx := c.run(undo)
		c.txCancel(tx, req.ID)
		c.wantAbsent(req.ID)
		err := c.held("claim of the forward key", func() error {
			_, _, err := c.store.Claim(c.Context(), req)
			return err
		}, c.ending(tx, undo, commit))
		c.Logf("claim while the transaction was open: error = %v", err)
		_, won, err := c.store.Claim(c.Context(), req)
		c.must("Claim after the transaction", err)
		want(c, "claim of the forward key: won", won, !commit)
	}
}

// ending returns the function that ends the undo run's transaction.
func (c *check) ending(tx store.Tx, undo store.Record, commit bool) func() error {
	return func() error {
		if commit {
			return tx.Settle(c.Context(), owner(undo), completion(200, ""))
		}
		return tx.Rollback(c.Context())
	}
}

func txCancelHoldsTakeOver(c *check) {
	for _, commit := range []bool{true, false} {
		for _, put := range []func(*check) store.Record{putSettled(release), putDead(store.Transactional)} {
			forward, undo := put(c), c.claimNew()
			tx, req := c.run(undo), request(forward.ID)
			c.txCancel(tx, forward.ID)
			_ = c.held("take-over of the forward key", func() error {
				_, _, err := c.store.TakeOver(c.Context(), req, forward.Fence)
				return err
			}, c.ending(tx, undo, commit))
			r := c.read(forward.ID)
			if commit {
				want(c, "state of the forward key", r.State, store.StateCancelled)
			} else if r.Token != req.Token { // it had stopped waiting
				c.takeOver(req, forward.Fence)
			}
		}
	}
}

// txCancelIsToldSoon checks a transaction that goes on. Calls for its keys soon get an error and change nothing, and
// other keys are claimed meanwhile.
func txCancelIsToldSoon(c *check) {
	undo, absent, released := c.claimNew(), request(newID()), putSettled(release)(c)
	tx := c.run(undo)
	c.txCancel(tx, absent.ID)
	c.txCancel(tx, released.ID)
	for what, do := range map[string]func() error{
		"Claim": func() error { _, _, err := c.store.Claim(c.Context(), absent); return err },
		"TakeOver": func() error {
			_, _, err := c.store.TakeOver(c.Context(), request(released.ID), released.Fence)
			return err
		},
	} {
		if err := do(); !errors.Is(err, store.ErrInProgress) || errors.Is(err, store.ErrFateUnknown) {
			c.Errorf("%s of a key that a transaction holds: error = %v, want %v", what, err, store.ErrInProgress)
		}
	}
	c.claimNew()
	c.must("Tx.Rollback", tx.Rollback(c.Context()))
	c.wantUnchanged(released)
	c.claim(absent)
}

// txCancelHoldsOwner checks a run in progress: the undo was told that it is in
// progress, so the run must not end during the undo.
func txCancelHoldsOwner(c *check) {
	forward, undo := c.claimNew(), c.claimNew()
	tx := c.run(undo)
	before, _ := c.txCancel(tx, forward.ID)
	want(c, "state that the undo sees", before.State, store.StateInProgress)
	s := completion(200, "forward")
	_ = c.held("settlement of the forward key", func() error {
		return c.store.Settle(c.Context(), owner(forward), s)
	}, c.ending(tx, undo, false))
	c.settle(owner(forward), s)
	want(c, "state of the forward key", c.read(forward.ID).State, store.StateCompleted)
}

func txCancelTwice(c *check) {
	for range 5 {
		forward := newID()
		var first atomic.Int32
		c.undoTogether([]store.Record{c.claimNew(), c.claimNew()}, func(ctx context.Context, _ int, tx store.Tx) (func(), error) {
			_, existed, err := tx.Cancel(ctx, store.CancelRequest{ID: forward, Token: newToken(), Keep: keep})
			letOthersCome(time.Millisecond) // before the commit
			return func() {
				if !existed {
					first.Add(1)
				}
			}, err
		})
		want(c, "committed undo runs that found no forward run", first.Load(), 1)
		want(c, "fence of the tombstone", c.read(forward).Fence, 1)
	}
}

func txCancelCrosswise(c *check) {
	for range 3 {
		a, b := newID(), newID()
		c.undoTogether([]store.Record{c.claimNew(), c.claimNew()}, func(ctx context.Context, i int, tx store.Tx) (func(), error) {
			order := []store.ID{a, b}
			if i == 1 {
				order = []store.ID{b, a}
			}
			for _, id := range order {
				if _, _, err := tx.Cancel(ctx, store.CancelRequest{ID: id, Token: newToken(), Keep: keep}); err != nil {
					return nil, err
				}
				letOthersCome(time.Millisecond) // and take their first lock
			}
			return func() {}, nil
		})
		want(c, "state of one forward key", c.read(a).State, store.StateCancelled)
		want(c, "state of the other", c.read(b).State, store.StateCancelled)
	}
}

// undoTogether runs the undos at once, as a guard does: each undo repeats its
// transaction until it commits. body returns a function to call after the
// commit.
func (c *check) undoTogether(undos []store.Record, body func(ctx context.Context, i int, tx store.Tx) (func(), error)) {
	c.Helper()
	deadline := c.deadline()
	runAtOnce(len(undos), func(i int) {
		for {
			err := c.undoOnce(undos[i], func(ctx context.Context, tx store.Tx) (func(), error) { return body(ctx, i, tx) })
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				c.Errorf("undo run %d: error = %v, want none", i, err)
				return
			}
			time.Sleep(time.Duration(i) * time.Millisecond) // so that they do not collide again
		}
	})
	for _, undo := range undos {
		c.wantEffects(undo.ID, 1)
		want(c, "state of the undo key", c.read(undo.ID).State, store.StateCompleted)
	}
}

func (c *check) undoOnce(undo store.Record, body func(ctx context.Context, tx store.Tx) (func(), error)) error {
	ctx, cancel := context.WithDeadline(c.Context(), c.deadline())
	defer cancel()
	tx, err := c.txs.Begin(ctx)
	if err != nil {
		return err
	}
	if err := c.effects.Add(tx.NewContext(ctx), undo.ID); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	after, err := body(ctx, tx)
	if err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	if err := tx.Settle(ctx, owner(undo), completion(200, "")); err != nil {
		return err
	}
	after()
	return nil
}
