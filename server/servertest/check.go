package servertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fanonce/fanonce/server"
)

const (
	long  = time.Minute           // a lease that outlives every law
	keep  = time.Hour             // so does this retention
	brief = 20 * time.Millisecond // a lease that a law waits out
	gone  = time.Microsecond      // a time that is over before the next call
	// defaultPatience bounds every wait for what must happen. It is generous:
	// only broken stores use it up.
	defaultPatience = 15 * time.Second
)

// check is what a law works with: a store, and short forms of its methods that
// fail the law on an error that the law does not expect.
type check struct {
	testing.TB
	store   server.Store
	txs     server.TxStore    // nil outside the laws of transactions
	watches server.WatchStore // nil outside the laws of watching
	effects Effects
	// expiring makes the records of claimNew, claimDead and cancel past their
	// retention at once.
	expiring bool
	// patience is how long the law waits for what must happen; zero means
	// defaultPatience.
	patience time.Duration
}

// deadline is when the patience ends of who begins to wait now.
func (c *check) deadline() time.Time {
	if c.patience > 0 {
		return time.Now().Add(c.patience)
	}
	return time.Now().Add(defaultPatience)
}

func (c *check) keep() time.Duration {
	if c.expiring {
		return gone
	}
	return keep
}

func newID() server.ID       { return server.ID(randomBytes()) }
func newToken() server.Token { return server.Token(randomBytes()) }

func randomBytes() (b [16]byte) {
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func newFingerprint() server.Fingerprint {
	f := server.Fingerprint{Version: 1}
	for i := range f.Sum {
		f.Sum[i] = byte(rand.Uint32())
	}
	return f
}

// request returns a claim of id by a new token, with a long lease. Its guess about
// the key is as often wrong as right: no law depends on it.
func request(id server.ID) server.ClaimRequest {
	return server.ClaimRequest{
		ID:          id,
		Token:       newToken(),
		Fingerprint: newFingerprint(),
		Effect:      server.Keyed,
		Lease:       long,
		Keep:        keep,
		Repeat:      rand.IntN(2) == 0,
	}
}

func owner(r server.Record) server.Owner {
	return server.Owner{ID: r.ID, Token: r.Token, Fence: r.Fence}
}

// completion returns the settlement of a run that answered with status.
func completion(status int, body string) server.Settlement {
	return server.Settlement{
		State:     server.StateCompleted,
		Answer:    server.Answer{Status: status, Envelope: []byte(body)},
		ReplayFor: keep,
	}
}

var (
	release = server.Settlement{State: server.StateReleased}
	death   = server.Settlement{State: server.StateInProgress}
	giveUp  = server.Settlement{State: server.StateUnknown, MaybeRan: true}
)

// must fails the law if err is not nil.
func (c *check) must(what string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: error = %v, want none", what, err)
	}
}

// wantErr fails the law if err is not want.
func (c *check) wantErr(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Fatalf("%s: error = %v, want %v", what, err, want)
	}
}

// want fails the law if got is not want.
func want[T comparable](c *check, what string, got, want T) {
	c.Helper()
	if got != want {
		c.Fatalf("%s = %v, want %v", what, got, want)
	}
}

// claim makes the request's token the first owner.
func (c *check) claim(req server.ClaimRequest) server.Record {
	c.Helper()
	r, won, err := c.store.Claim(c.Context(), req)
	c.must("Claim", err)
	if !won {
		c.Fatalf("Claim of an absent key won = false, want true; record: %s", describe(r))
	}
	return r
}

// claimNew claims a new key with a long lease.
func (c *check) claimNew() server.Record {
	c.Helper()
	req := request(newID())
	req.Keep = c.keep()
	return c.claim(req)
}

// claimDead claims a new key for a run with effect, whose owner then dies.
func (c *check) claimDead(effect server.Effect) server.Record {
	c.Helper()
	req := request(newID())
	req.Effect, req.Lease, req.Keep = effect, gone, c.keep()
	r := c.claim(req)
	c.untilDead(r.ID)
	return r
}

func (c *check) takeOver(req server.ClaimRequest, from int64) server.Record {
	c.Helper()
	r, won, err := c.store.TakeOver(c.Context(), req, from)
	c.must("TakeOver", err)
	if !won {
		c.Fatalf("TakeOver of a free key won = false, want true; record: %s", describe(r))
	}
	return r
}

func (c *check) settle(o server.Owner, s server.Settlement) {
	c.Helper()
	c.must("Settle", c.store.Settle(c.Context(), o, s))
}

// grave asks to bury r.
func grave(r server.Record, to server.State) server.BuryRequest {
	return server.BuryRequest{ID: r.ID, From: r.Fence, To: to}
}

func (c *check) bury(req server.BuryRequest) server.Record {
	c.Helper()
	r, buried, err := c.store.Bury(c.Context(), req)
	c.must("Bury", err)
	if !buried {
		c.Fatalf("Bury of a dead run = false, want true; record: %s", describe(r))
	}
	return r
}

func (c *check) cancel(id server.ID) (before server.Record, existed bool) {
	c.Helper()
	before, existed, err := c.store.Cancel(c.Context(), server.CancelRequest{ID: id, Token: newToken(), Keep: c.keep()})
	c.must("Cancel", err)
	return before, existed
}

func (c *check) read(id server.ID) server.Record {
	c.Helper()
	r, err := c.store.Read(c.Context(), id)
	c.must("Read", err)
	return r
}

// wantUnchanged fails the law if the key's record is not before.
func (c *check) wantUnchanged(before server.Record) {
	c.Helper()
	if diff := difference(c.read(before.ID), before); diff != "" {
		c.Fatalf("record changed: %s", diff)
	}
}

func (c *check) wantAbsent(id server.ID) {
	c.Helper()
	r, err := c.store.Read(c.Context(), id)
	if !errors.Is(err, server.ErrNotFound) {
		c.Fatalf("Read of an absent key: error = %v, record: %s, want %v", err, describe(r), server.ErrNotFound)
	}
}

// untilDead waits until the store says that the lease is over.
func (c *check) untilDead(id server.ID) server.Record {
	c.Helper()
	var r server.Record
	c.eventually("the lease ends", func() bool {
		r = c.read(id)
		return r.State != server.StateInProgress || r.LeaseLeft() <= 0
	})
	return r
}

// eventually asks until done, and fails the law if its patience ends first.
func (c *check) eventually(what string, done func() bool) {
	c.Helper()
	start, deadline := time.Now(), c.deadline()
	for !done() {
		if time.Now().After(deadline) {
			c.Fatalf("%v passed before %s", time.Since(start), what)
		}
		time.Sleep(time.Millisecond)
	}
}

// storeNow returns the time by the store's clock.
func (c *check) storeNow() time.Time {
	c.Helper()
	return c.claimNew().Now
}

// together calls f n times at once and waits for all.
func together(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// cancelledContext returns a ctx that is done.
func (c *check) cancelledContext() context.Context {
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	return ctx
}
