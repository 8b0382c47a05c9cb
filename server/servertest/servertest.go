package servertest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/fanonce/fanonce/server"
)

// TestStore runs every law as a parallel subtest, each on a store of its own:
// open returns an empty one and leaves its closing to tb.Cleanup. If the store
// is a [server.TxStore], the laws of transactions run too, with none but the
// store's own effects; see [TestTxStore]. If it is a [server.WatchStore], so do those of
// watching.
//
// It takes less than 20 seconds with calls of a millisecond.
func TestStore(t *testing.T, open func(tb testing.TB) server.Store) {
	t.Helper()
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.holds(&check{TB: t, store: open(t)})
		})
	}
	optionally(t, open, txLaws, func(c *check, store server.TxStore) { c.txs, c.effects = store, noEffects{} })
	optionally(t, open, watchLaws, func(c *check, store server.WatchStore) { c.watches = store })
}

// optionally runs the laws for stores that are an S.
func optionally[S server.Store](t *testing.T, open func(tb testing.TB) server.Store, laws []law, give func(*check, S)) {
	t.Helper()
	if _, ok := open(t).(S); !ok {
		return
	}
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			store, ok := open(t).(S)
			if !ok {
				t.Fatalf("open does not always return a %v", reflect.TypeFor[S]())
			}
			c := &check{TB: t, store: store}
			give(c, store)
			l.holds(c)
		})
	}
}

// TestTxStore runs the laws of transactions with effects that users could see:
// rows, for a store in a database. They and the record commit together, or not
// at all. open returns an empty store and the effects in its database.
func TestTxStore(t *testing.T, open func(tb testing.TB) (server.TxStore, Effects)) {
	t.Helper()
	for _, l := range txLaws {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			store, effects := open(t)
			l.holds(&check{TB: t, store: store, txs: store, effects: effects})
		})
	}
}

// Effects is what runs leave in a store's database besides their records. Its
// methods must be safe for concurrent use.
type Effects interface {
	// Add leaves one more effect of the run of id, in the transaction that ctx
	// carries ([server.Tx].NewContext).
	Add(ctx context.Context, id server.ID) error
	// Count returns how many effects of id are committed.
	Count(ctx context.Context, id server.ID) (int, error)
}

// A Breaker is [Effects] whose transactions can be made to fail, for the laws about
// failed transactions. TestTxStore runs those laws only with a Breaker.
type Breaker interface {
	Effects
	// Break makes the transaction that ctx carries fail by the store's own means. The
	// kinds of failure are [server.ErrConflict], [server.ErrTxLost], a
	// [*server.TxError] and [ErrUnavailable]. A TxError with Commit set makes only the
	// commit fail. The effects and the store must go on without the transaction.
	Break(ctx context.Context, failure error) error
}

// ErrUnavailable stands for every failure without a name in package server. The store
// could not do its part.
var ErrUnavailable = errors.New("servertest: the store is unavailable")

// noEffects stands in where a store's effects are not known; laws then see the
// records only.
type noEffects struct{}

func (noEffects) Add(context.Context, server.ID) error          { return nil }
func (noEffects) Count(context.Context, server.ID) (int, error) { return unknownCount, nil }

const unknownCount = -1

// A law is one thing that a store must do, and the race or the fault that shows
// whether it does. It reports by its check alone, so that a test can watch it
// fail.
type law struct {
	name  string
	holds func(c *check)
}

var laws = slices.Concat(claimLaws, takeOverLaws, buryLaws, renewLaws, settleLaws, cancelLaws, sweepLaws, recordLaws, answerLaws, operatorLaws, contextLaws, modelLaws, historyLaws)
