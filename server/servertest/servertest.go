package servertest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/fanonce/fanonce/server/store"
)

// TestStore runs every rule as a parallel subtest, each on a store of its own. open returns an empty store, and
// closes it in tb.Cleanup. If the store is a [store.TxStore], the rules of transactions run too, without effects
// beside the records; see [TestTxStore]. If the
// store is a [store.WatchStore], the rules of watching run too.
//
// It takes less than 20 seconds with calls of a millisecond.
func TestStore(t *testing.T, open func(tb testing.TB) store.Store) {
	t.Helper()
	for _, l := range rules {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.holds(&check{TB: t, store: open(t)})
		})
	}
	optionally(t, open, txRules, func(c *check, s store.TxStore) { c.txs, c.effects = s, noEffects{} })
	optionally(t, open, watchRules, func(c *check, s store.WatchStore) { c.watches = s })
}

// optionally runs the rules for stores that implement S.
func optionally[S store.Store](t *testing.T, open func(tb testing.TB) store.Store, rules []rule, give func(*check, S)) {
	t.Helper()
	if _, ok := open(t).(S); !ok {
		return
	}
	for _, l := range rules {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			s, ok := open(t).(S)
			if !ok {
				t.Fatalf("open does not always return a %v", reflect.TypeFor[S]())
			}
			c := &check{TB: t, store: s}
			give(c, s)
			l.holds(c)
		})
	}
}

// TestTxStore runs the rules of transactions with effects that users could see:
// rows, for a store in a database. They and the record commit together, or not
// at all. open returns an empty store and the effects in its database.
func TestTxStore(t *testing.T, open func(tb testing.TB) (store.TxStore, Effects)) {
	t.Helper()
	for _, l := range txRules {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			s, effects := open(t)
			l.holds(&check{TB: t, store: s, txs: s, effects: effects})
		})
	}
}

// Effects are the rows that runs leave in a store's database besides their
// records. Its methods must be safe for concurrent use.
type Effects interface {
	// Add leaves one more effect of the run of id, in the transaction that ctx
	// carries ([store.Tx].NewContext).
	Add(ctx context.Context, id store.ID) error
	// Count returns how many effects of id are committed.
	Count(ctx context.Context, id store.ID) (int, error)
}

// A Breaker is [Effects] whose transactions can be made to fail, for the rules about
// failed transactions. TestTxStore runs those rules only with a Breaker.
type Breaker interface {
	Effects
	// Break makes the transaction that ctx carries fail by the store's own means. The
	// kinds of failure are [store.ErrConflict], [store.ErrTxLost], [store.ErrTxAbandoned],
	// a [*store.TxError] and [ErrUnavailable]. A TxError with Commit set makes only the
	// commit fail. The effects and the store must go on without the transaction.
	Break(ctx context.Context, failure error) error
}

// ErrUnavailable stands for every failure without a name in package server. The store
// could not do its part.
var ErrUnavailable = errors.New("servertest: the store is unavailable")

// noEffects is for stores whose effects are not known; rules then see only the
// records.
type noEffects struct{}

func (noEffects) Add(context.Context, store.ID) error          { return nil }
func (noEffects) Count(context.Context, store.ID) (int, error) { return unknownCount, nil }

const unknownCount = -1

// A rule is one duty of a store, and the race or the fault that shows whether
// the store fulfils it. It reports only through its check, so that a test can
// watch it fail.
type rule struct {
	name  string
	holds func(c *check)
}

var rules = slices.Concat(claimRules, takeOverRules, quarantineRules, renewRules, settleRules, cancelRules, sweepRules, recordRules, answerRules, operatorRules, contextRules, modelRules, historyRules)
