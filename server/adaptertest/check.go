package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A check is one rule's service, and what its runs did.
type check struct {
	testing.TB
	store *faultyStore
	call  Caller

	mu      sync.Mutex
	inputs  []string // of all runs
	effects []string // of the runs that were committed
	// script says what the runs do, in order; runs beyond it succeed.
	script []step
}

// A step is what one run does.
type step struct {
	failure error // of the transaction, after the run's effect
	err     error // that the operation returns
	panics  bool
}

func newCheck(tb testing.TB, serve func(testing.TB, Operation) Caller) *check {
	tb.Helper()
	c := &check{TB: tb, store: &faultyStore{Store: memstore.New()}}
	guard, err := server.NewGuard(c.store, server.Unscoped, server.Config{ReplayHeaders: []string{NoteHeader}})
	if err != nil {
		tb.Fatal(err)
	}
	c.call = serve(tb, Operation{Guard: guard, Handle: c.handle})
	return c
}

// handle is the operation. Its answer names the run that made it.
func (c *check) handle(ctx context.Context, input string) (Reply, error) {
	c.mu.Lock()
	c.inputs = append(c.inputs, input)
	n, now := len(c.inputs), step{}
	if n <= len(c.script) {
		now = c.script[n-1]
	}
	c.mu.Unlock()
	tx := memstore.Tx(ctx)
	if tx == nil {
		return Reply{}, errors.New("adaptertest: the handler's ctx is not the run's: it has no transaction")
	}
	run := fmt.Sprint("run ", n)
	_ = tx.Do(func() { // called at the commit
		c.mu.Lock()
		defer c.mu.Unlock()
		c.effects = append(c.effects, run)
	})
	if now.failure != nil {
		_ = tx.Fail(now.failure)
	}
	if now.panics {
		panic("adaptertest: the handler panics")
	}
	return Reply{Text: run, Note: run}, now.err
}

// send makes a call that must have an answer.
func (c *check) send(key, input string) Answer {
	c.Helper()
	a, err := c.call(c.Context(), key, input)
	if err != nil {
		c.Fatalf("the call with key %s: %v", key, err)
	}
	return a
}

// want compares an answer of a run with the answer that the caller should have.
func (c *check) want(got Answer, outcome string, run int, replayed bool) {
	c.Helper()
	text := fmt.Sprint("run ", run)
	switch {
	case got.Outcome != outcome:
		c.Fatalf("outcome = %q, want %q; the answer is %+v", got.Outcome, outcome, got)
	case outcome == OK && got.Text != text:
		c.Errorf("text = %q, want %q: the answer of the run that took effect", got.Text, text)
	case got.Notes != nil && !slices.Equal(got.Notes, []string{text}):
		c.Errorf("notes = %q, want %q: those of the run that was answered, and no other's", got.Notes, text)
	case got.Replayed != replayed:
		c.Errorf("replayed = %v, want %v", got.Replayed, replayed)
	}
}

// wantEffects compares what was committed, and the number of runs.
func (c *check) wantEffects(runs int, committed ...int) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var want []string
	for _, n := range committed {
		want = append(want, fmt.Sprint("run ", n))
	}
	if len(c.inputs) != runs {
		c.Errorf("the handler ran %d times, want %d", len(c.inputs), runs)
	}
	if !slices.Equal(c.effects, want) {
		c.Errorf("effects that were committed: %q, want %q", c.effects, want)
	}
}

// A faultyStore refuses as many commits as it is told with a serialization failure.
type faultyStore struct {
	*memstore.Store
	refuse atomic.Int32
}

// Begin implements [store.TxStore].
func (s *faultyStore) Begin(ctx context.Context) (store.Tx, error) {
	tx, err := s.Store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyTx{tx, s}, nil
}

type faultyTx struct {
	store.Tx
	store *faultyStore
}

// Settle implements [store.Tx].
func (t *faultyTx) Settle(ctx context.Context, o store.Owner, s store.Settlement) error {
	if t.store.refuse.Add(-1) < 0 {
		return t.Tx.Settle(ctx, o, s)
	}
	_ = t.Rollback(ctx) // it never fails
	return store.ErrConflict
}
