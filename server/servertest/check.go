package servertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

const (
	long  = 15 * time.Minute      // longer than every rule, on a loaded machine too
	keep  = time.Hour             // this retention is longer, too
	brief = 20 * time.Millisecond // a lease whose end a rule can wait for
	gone  = time.Microsecond      // a time that is over before the next call
	// defaultPatience bounds every wait for an event that must happen. It is
	// generous: only broken stores need all of it.
	defaultPatience = 15 * time.Second
)

// check has the store of a rule, and short forms of the store's methods. These
// fail the rule on an error that the rule does not expect.
type check struct {
	testing.TB
	store   store.Store
	txs     store.TxStore    // nil outside the rules of transactions
	watches store.WatchStore // nil outside the rules of watching
	effects Effects

	reader   store.Reader // of store; nil outside the rules of readers
	sameTime func(claim func() []store.ID)
	generic  bool // see [ReaderSetup]
	routes   bool // the store keeps the route of every claim
	// expiring makes the records of claimNew, claimDead and cancel past their
	// retention at once.
	expiring bool
	// patience is how long the rule waits for an event that must happen; zero
	// means defaultPatience.
	patience time.Duration
}

// deadline is the end of the patience for a wait that begins now.
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

func newID() store.ID       { return store.ID(randomBytes()) }
func newToken() store.Token { return store.Token(randomBytes()) }

func randomBytes() (b [16]byte) {
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func newFingerprint() store.Fingerprint {
	f := store.Fingerprint{Version: 1}
	for i := range f.Sum {
		f.Sum[i] = byte(rand.Uint32())
	}
	return f
}

// request returns a claim of id by a new token, with a long lease.
func request(id store.ID) store.ClaimRequest {
	return store.ClaimRequest{
		ID:          id,
		Token:       newToken(),
		Fingerprint: newFingerprint(),
		Effect:      store.Keyed,
		Parent:      newID(),
		Lease:       long,
		Keep:        keep,
	}
}

func owner(r store.Record) store.Owner {
	return store.Owner{ID: r.ID, Token: r.Token, Fence: r.Fence}
}

// completion returns the settlement of a run that answered with status.
func completion(status int, body string) store.Settlement {
	return store.Settlement{
		State:     store.StateCompleted,
		Answer:    store.Answer{Status: status, Envelope: []byte(body)},
		ReplayFor: keep,
	}
}

var (
	release = store.Settlement{State: store.StateReleased}
	death   = store.Settlement{State: store.StateInProgress}
	giveUp  = store.Settlement{State: store.StateUnknown, MaybeRan: true}
)

// must fails the rule if err is not nil.
func (c *check) must(what string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: error = %v, want none", what, err)
	}
}

// wantErr fails the rule if err is not want.
func (c *check) wantErr(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Fatalf("%s: error = %v, want %v", what, err, want)
	}
}

// want fails the rule if got is not want.
func want[T comparable](c *check, what string, got, want T) {
	c.Helper()
	if got != want {
		c.Fatalf("%s = %v, want %v", what, got, want)
	}
}

// claim makes the request's token the first owner.
func (c *check) claim(req store.ClaimRequest) store.Record {
	c.Helper()
	r, won, err := c.store.Claim(c.Context(), req)
	c.must("Claim", err)
	if !won {
		c.Fatalf("Claim of an absent key won = false, want true; record: %s", describe(r))
	}
	return r
}

// claimNew claims a new key with a long lease.
func (c *check) claimNew() store.Record {
	c.Helper()
	req := request(newID())
	req.Keep = c.keep()
	return c.claim(req)
}

// claimDead claims a new key for a run with effect, whose owner then dies.
func (c *check) claimDead(effect store.Effect) store.Record {
	c.Helper()
	req := request(newID())
	req.Effect, req.Lease, req.Keep = effect, gone, c.keep()
	r := c.claim(req)
	c.untilDead(r.ID)
	return r
}

func (c *check) takeOver(req store.ClaimRequest, from int64) store.Record {
	c.Helper()
	r, won, err := c.store.TakeOver(c.Context(), req, from)
	c.must("TakeOver", err)
	if !won {
		c.Fatalf("TakeOver of a free key won = false, want true; record: %s", describe(r))
	}
	return r
}

func (c *check) settle(o store.Owner, s store.Settlement) {
	c.Helper()
	c.must("Settle", c.store.Settle(c.Context(), o, s))
}

// grave returns a request to quarantine r.
func grave(r store.Record, to store.State) store.QuarantineRequest {
	return store.QuarantineRequest{ID: r.ID, From: r.Fence, To: to}
}

func (c *check) quarantine(req store.QuarantineRequest) store.Record {
	c.Helper()
	r, quarantined, err := c.store.Quarantine(c.Context(), req)
	c.must("Quarantine", err)
	if !quarantined {
		c.Fatalf("Quarantine of a dead run = false, want true; record: %s", describe(r))
	}
	return r
}

func (c *check) cancel(id store.ID) (before store.Record, existed bool) {
	c.Helper()
	before, existed, err := c.store.Cancel(c.Context(), store.CancelRequest{ID: id, Token: newToken(), Keep: c.keep()})
	c.must("Cancel", err)
	return before, existed
}

func (c *check) read(id store.ID) store.Record {
	c.Helper()
	r, err := c.store.Read(c.Context(), id)
	c.must("Read", err)
	return r
}

// wantUnchanged fails the rule if the key's record is not before.
func (c *check) wantUnchanged(before store.Record) {
	c.Helper()
	if diff := difference(c.read(before.ID), before); diff != "" {
		c.Fatalf("record changed: %s", diff)
	}
}

func (c *check) wantAbsent(id store.ID) {
	c.Helper()
	r, err := c.store.Read(c.Context(), id)
	if !errors.Is(err, store.ErrNotFound) {
		c.Fatalf("Read of an absent key: error = %v, record: %s, want %v", err, describe(r), store.ErrNotFound)
	}
}

// untilDead waits until the store says that the lease is over.
func (c *check) untilDead(id store.ID) store.Record {
	c.Helper()
	var r store.Record
	c.eventually("the lease ends", func() bool {
		r = c.read(id)
		return r.State != store.StateInProgress || r.LeaseLeft() <= 0
	})
	return r
}

// longestPause is the time between two looks at something that takes long: a look is a call of the store.
const longestPause = 16 * time.Millisecond

// eventually calls done until it returns true. It fails the rule if the patience ends first.
func (c *check) eventually(what string, done func() bool) {
	c.Helper()
	start, deadline, pause := time.Now(), c.deadline(), time.Millisecond
	for ; !done(); pause = min(2*pause, longestPause) {
		if time.Now().After(deadline) {
			c.Fatalf("%v passed before %s", time.Since(start), what)
		}
		time.Sleep(pause)
	}
}

// storeNow returns the time by the store's clock.
func (c *check) storeNow() time.Time {
	c.Helper()
	return c.claimNew().Now
}

// runAtOnce calls f n times at once and waits for all.
func runAtOnce(n int, f func(i int)) {
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
