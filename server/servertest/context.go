package servertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var contextRules = []rule{
	{"context: a call whose context is done changes nothing", doneContextDoesNothing},
	{"context: a context that ends during a claim leaves all of it or nothing", claimIsAllOrNothing},
	{"context: a context that ends during a settlement leaves all of it or nothing", settleIsAllOrNothing},
	{"context: a context that ends during a cancel leaves all of it or nothing", cancelIsAllOrNothing},
}

func doneContextDoesNothing(c *check) {
	ctx := c.cancelledContext()
	absent, live, dead := newID(), c.claimNew(), putDead(store.Keyed)(c)
	spent, unknown := c.spend(1)[0], putSettled(giveUp)(c)
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"Claim", func() error { _, _, err := c.store.Claim(ctx, request(absent)); return err }},
		{"TakeOver", func() error { _, _, err := c.store.TakeOver(ctx, request(dead.ID), 1); return err }},
		{"Quarantine", func() error { _, _, err := c.store.Quarantine(ctx, grave(dead, store.StateQuarantined)); return err }},
		{"Renew", func() error { _, err := c.store.Renew(ctx, []store.Owner{owner(live)}, 2*long); return err }},
		{"Settle", func() error { return c.store.Settle(ctx, owner(live), completion(200, "")) }},
		{"Cancel", func() error {
			_, _, err := c.store.Cancel(ctx, store.CancelRequest{ID: absent, Token: newToken(), Keep: keep})
			return err
		}},
		{"Read", func() error { _, err := c.store.Read(ctx, live.ID); return err }},
		{"Sweep", func() error { _, err := c.store.Sweep(ctx, 10); return err }},
		{"Stats", func() error { _, err := c.store.Stats(ctx); return err }},
		{"Resolve", func() error {
			_, _, err := c.store.Resolve(ctx, resolution(unknown, store.StateReleased))
			return err
		}},
		{"Forget", func() error { _, _, err := c.store.Forget(ctx, unknown.ID, unknown.Fence, someone); return err }},
		{"Defer", func() error { _, err := c.store.Defer(ctx, unknown.ID, unknown.Fence, long); return err }},
	} {
		c.wantErr(call.name+" with a done context", call.do(), context.Canceled)
	}
	c.wantAbsent(absent)
	for _, r := range []store.Record{live, dead, spent, unknown} {
		c.wantUnchanged(r)
	}
}

// interrupt runs do with a ctx that ends during the call, or just before or
// after it. The moment moves with round.
func (c *check) interrupt(round int, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	timer := time.AfterFunc(time.Duration(round*round)*time.Microsecond, cancel)
	defer timer.Stop()
	return do(ctx)
}

const rounds = 40 // the last ctx lives for 1.6 ms

func claimIsAllOrNothing(c *check) {
	for round := range rounds {
		req := request(newID())
		err := c.interrupt(round, func(ctx context.Context) error {
			_, _, err := c.store.Claim(ctx, req)
			return err
		})
		r, readErr := c.store.Read(c.Context(), req.ID)
		switch {
		case errors.Is(readErr, store.ErrNotFound) && err == nil:
			c.Fatal("Claim returned no error, and left no record")
		case readErr == nil && err != nil && !errors.Is(err, store.ErrFateUnknown):
			c.Fatalf("Claim: error = %v and left a record, want %v", err, store.ErrFateUnknown)
		case readErr == nil && (r.Token != req.Token || r.Fingerprint != req.Fingerprint || r.Fence != 1):
			c.Fatalf("half a record: %s", describe(r))
		}
		c.claim(req) // in every case its token gets the key
	}
}

func settleIsAllOrNothing(c *check) {
	for round := range rounds {
		r, s := c.claimNew(), completion(200, fmt.Sprint("answer ", round))
		err := c.interrupt(round, func(ctx context.Context) error { return c.store.Settle(ctx, owner(r), s) })
		got := c.read(r.ID)
		switch {
		case got.State == store.StateInProgress && err == nil:
			c.Fatal("Settle returned no error, and the run goes on")
		case got.State != store.StateInProgress && err != nil && !errors.Is(err, store.ErrFateUnknown):
			c.Fatalf("Settle: error = %v and settled, want %v", err, store.ErrFateUnknown)
		}
		c.settle(owner(r), s)
		got = c.read(r.ID)
		if got.Answer.Status != 200 || !sameBytes(got.Answer.Envelope, s.Answer.Envelope) {
			c.Fatalf("half an answer: %s, %s", describe(got), brand(got.Answer.Envelope))
		}
	}
}

func cancelIsAllOrNothing(c *check) {
	for round := range rounds {
		req := store.CancelRequest{ID: newID(), Token: newToken(), Keep: keep}
		err := c.interrupt(round, func(ctx context.Context) error {
			_, _, err := c.store.Cancel(ctx, req)
			return err
		})
		r, readErr := c.store.Read(c.Context(), req.ID)
		switch {
		case errors.Is(readErr, store.ErrNotFound) && err == nil:
			c.Fatal("Cancel returned no error, and left no tombstone")
		case readErr == nil && err != nil && !errors.Is(err, store.ErrFateUnknown):
			c.Fatalf("Cancel: error = %v and left a record, want %v", err, store.ErrFateUnknown)
		case readErr == nil && (r.State != store.StateCancelled || r.Token != req.Token):
			c.Fatalf("half a tombstone: %s", describe(r))
		}
		before, existed, err := c.store.Cancel(c.Context(), req)
		c.must("Cancel repeated", err)
		if existed && before.Token != req.Token {
			c.Fatalf("repeated cancel met another's record: %s", describe(before))
		}
	}
}
