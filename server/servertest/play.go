package servertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

func (c *check) againstModel(seed uint64, steps int) {
	c.Helper()
	r := &script{Rand: rand.New(rand.NewPCG(seed, seed)), now: c.sweptNow()}
	for i := range r.ids {
		r.ids[i], r.tokens[i] = newID(), newToken()
	}
	m, calls := make(model), make(map[store.ID][]step)
	for i := range steps {
		s := r.draw(m)
		calls[s.id] = append(calls[s.id], s)
		if diff := c.play(m, s, r.ids[:]); diff != "" {
			c.Errorf("seed %#x, call %d: %s", seed, i, diff)
			for _, s := range calls[s.id] {
				c.Logf("%v", s)
			}
			c.FailNow()
		}
		if i%100 == 99 || i == steps-1 {
			c.compareAttention(m)
		}
	}
}

// compareAttention checks how many keys need a person.
func (c *check) compareAttention(m model) {
	c.Helper()
	var unknown, quarantined int64
	for _, k := range m {
		switch k.State {
		case store.StateUnknown:
			unknown++
		case store.StateQuarantined:
			quarantined++
		default:
		}
	}
	got, err := c.store.Reader().Attention(c.Context())
	c.must("Attention", err)
	want(c, "unknown keys", got.Unknown, unknown)
	want(c, "quarantined keys", got.Quarantined, quarantined)
}

// sweptNow reads the store's clock and leaves no record behind.
func (c *check) sweptNow() time.Time {
	c.Helper()
	req := request(newID())
	req.Lease, req.Keep = gone, gone
	r := c.claim(req)
	c.untilExpired(r)
	n, err := c.store.Sweep(c.Context(), 1)
	c.must("Sweep", err)
	want(c, "records swept", n, 1)
	return r.Now.Truncate(time.Microsecond)
}

// play makes one call of the store and of the model, and describes their
// difference. ids are the keys that a sweep may have changed.
func (c *check) play(m model, s step, ids []store.ID) string {
	c.Helper()
	if s.method == "renew" {
		return c.playRenewal(m, s)
	}
	var before store.Record
	if k := m[s.id]; k != nil {
		before = k.Record
	}
	got, ok, err := c.call(s)
	expect, wantOK, wantErr := m.call(s)
	if s.method == "cancel" || s.method == "forget" {
		expect = before // they return the record as it was
	}
	if !errors.Is(err, wantErr) {
		return fmt.Sprintf("%s: error = %v, want %v", s.method, err, wantErr)
	}
	if ok != wantOK {
		return fmt.Sprintf("%s = %v, want %v", s.method, ok, wantOK)
	}
	if s.method == "sweep" && got.Fence != expect.Fence {
		return fmt.Sprintf("sweep = %d, want %d", got.Fence, expect.Fence)
	}
	returnsRecord := err == nil && !slices.Contains([]string{"settle", "sweep", "defer"}, s.method)
	if diff := modelDifference(got, expect); returnsRecord && diff != "" {
		return fmt.Sprintf("%s returned: %s", s.method, diff)
	}
	c.letPass(s)
	if s.method != "sweep" {
		return c.compare(m, s)
	}
	for _, id := range ids {
		s.id = id
		if diff := c.compare(m, s); diff != "" {
			return diff
		}
	}
	return ""
}

// compare describes how the record of s's key differs from the model's.
func (c *check) compare(m model, s step) string {
	c.Helper()
	k := m[s.id]
	got, err := c.store.Read(c.Context(), s.id)
	switch {
	case k == nil && errors.Is(err, store.ErrNotFound):
		return ""
	case k == nil || err != nil:
		return fmt.Sprintf("after %s: the store has a record = %v (error %v), want %v", s.method, err == nil, err, k != nil)
	}
	if diff := modelDifference(got, k.Record); diff != "" {
		return fmt.Sprintf("after %s: %s", s.method, diff)
	}
	return ""
}

// modelDifference leaves out the times that a model does not know.
func modelDifference(got, want store.Record) string {
	got.CreatedAt, got.LeaseUntil, got.ExpiresAt, got.ReplayUntil = want.CreatedAt, want.LeaseUntil, want.ExpiresAt, want.ReplayUntil
	return difference(got, want)
}

// letPass waits until the times that must be over after s are over.
func (c *check) letPass(s step) {
	c.Helper()
	if s.lease != gone && s.keep != gone && s.end.ReplayFor != gone {
		return
	}
	r, err := c.store.Read(c.Context(), s.id)
	if err != nil {
		return
	}
	c.eventually("a microsecond passes", func() bool { return c.read(s.id).Now.Sub(r.Now) > gone })
}

// call returns, for a sweep, the number of deleted records instead of a fence.
func (c *check) call(s step) (r store.Record, ok bool, err error) {
	ctx := c.Context()
	switch s.method {
	case "claim":
		return c.store.Claim(ctx, s.request())
	case "take over":
		return c.store.TakeOver(ctx, s.request(), s.fence)
	case "quarantine":
		return c.store.Quarantine(ctx, store.QuarantineRequest{ID: s.id, From: s.fence, To: s.grave})
	case "cancel":
		return c.store.Cancel(ctx, store.CancelRequest{ID: s.id, Token: s.token, Keep: s.keep, Undone: s.undone})
	case "settle":
		err := c.store.Settle(ctx, s.owner(), s.end)
		return r, err == nil, err
	case "resolve":
		return c.store.Resolve(ctx, s.resolution())
	case "forget":
		return c.store.Forget(ctx, s.id, s.fence, someone)
	case "defer":
		won, err := c.store.Defer(ctx, s.id, s.fence, s.lease)
		return r, won, err
	default:
		n, err := c.store.Sweep(ctx, 1000)
		return store.Record{Fence: int64(n)}, true, err
	}
}

func (m model) call(s step) (r store.Record, ok bool, err error) {
	switch s.method {
	case "claim":
		ok, err = m.claim(s)
	case "take over":
		ok, err = m.takeOver(s)
	case "quarantine":
		ok, err = m.quarantine(s)
	case "cancel":
		ok, err = m.cancel(s)
	case "settle":
		ok, err = m.settle(s)
	case "resolve":
		ok, err = m.resolve(s)
	case "forget":
		ok, err = m.forget(s)
	case "defer":
		ok, err = m.deferral(s)
	default:
		return store.Record{Fence: int64(m.sweep())}, true, nil
	}
	if k := m[s.id]; k != nil {
		r = k.Record
	}
	return r, ok, err
}

// playRenewal renews several owners at once, of the store and of the model, and
// describes the difference. In some steps a transaction holds one of the
// records. Then its owner is undecided, and the others are still renewed or
// lost.
func (c *check) playRenewal(m model, s step) string {
	c.Helper()
	owners := append([]store.Owner{s.owner()}, s.others...)
	release := c.hold(s.held)
	got, err := c.store.Renew(c.Context(), owners, s.lease)
	held := release()
	left := c.checkRenewal(owners, got)
	if (err == nil) != (len(left) == 0) {
		return fmt.Sprintf("renew: error = %v with %d of %d owners undecided", err, len(left), len(owners))
	}
	for _, o := range owners {
		mayBeUndecided := held && o.ID == s.held
		switch {
		case slices.Contains(left, o) && !mayBeUndecided:
			return fmt.Sprintf("renew left an owner undecided whose record nobody holds: %v", err)
		case slices.Contains(got.Lost, o) && m.owns(o):
			return "renew took an owner for lost"
		case slices.Contains(got.Renewed, o) && (!m.owns(o) || mayBeUndecided):
			return fmt.Sprintf("renew took an owner for renewed: the model says that it owns the key = %v, a transaction holds it = %v", m.owns(o), mayBeUndecided)
		case slices.Contains(got.Renewed, o):
			m.renew(o, s.lease)
		}
		s.id = o.ID
		c.letPass(s)
		if diff := c.compare(m, s); diff != "" {
			return diff
		}
	}
	return ""
}

// hold makes a transaction hold the record of id, if the store has
// transactions. release ends it, and returns whether it held the record.
func (c *check) hold(id store.ID) (release func() bool) {
	c.Helper()
	txs, ok := c.store.(store.TxStore)
	if !ok || id == (store.ID{}) {
		return func() bool { return false }
	}
	tx, err := txs.Begin(c.Context())
	c.must("Begin", err)
	_, _, err = tx.Cancel(c.Context(), store.CancelRequest{ID: id, Token: newToken(), Keep: keep})
	c.must("Tx.Cancel", err)
	return func() bool {
		c.Helper()
		c.must("Rollback", tx.Rollback(c.Context()))
		return true
	}
}
