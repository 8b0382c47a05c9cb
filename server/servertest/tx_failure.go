package servertest

import (
	"errors"

	"github.com/fanonce/fanonce/server/store"
)

var txFailureRules = []rule{
	{"tx: a failure that the handler ignored prevents the commit, and Err has its kind", txFailureTells},
	{"tx: of several failures the first one counts", txFirstFailureCounts},
}

// A guard reacts to each kind of failure in another way.
var txFailures = []struct {
	name    string
	failure error
}{
	{"conflict", store.ErrConflict},
	{"lost", store.ErrTxLost},
	{"abandoned", store.ErrTxAbandoned},
	{"refused", &store.TxError{SQLState: "23505"}},
	{"refused commit", &store.TxError{SQLState: "23505", Commit: true}},
	{"unavailable", ErrUnavailable},
}

func txFailureTells(c *check) {
	breaker, ok := c.effects.(Breaker)
	if !ok {
		return
	}
	for _, f := range txFailures {
		r := c.claimNew()
		tx, ctx := c.begin()
		c.must("Add", c.effects.Add(ctx, r.ID))
		c.must("Err of a sound transaction", tx.Err())
		c.must("Break: "+f.name, breaker.Break(ctx, f.failure))
		var refused *store.TxError
		if errors.As(f.failure, &refused) && refused.Commit {
			c.must("Err before the COMMIT is refused", tx.Err())
		} else {
			c.wantFailure("Err: "+f.name, tx.Err(), f.failure)
		}
		c.wantFailure("Tx.Settle: "+f.name, tx.Settle(c.Context(), owner(r), completion(200, "lost rows")), f.failure)
		c.wantUnchanged(r)
		c.wantEffects(r.ID, 0)
		c.must("Rollback after the end", tx.Rollback(c.Context()))
		c.settle(owner(r), completion(409, "without rows"))
	}
}

func txFirstFailureCounts(c *check) {
	breaker, ok := c.effects.(Breaker)
	if !ok {
		return
	}
	r := c.claimNew()
	tx, ctx := c.begin()
	c.must("Break", breaker.Break(ctx, &store.TxError{SQLState: "23505"}))
	if err := c.effects.Add(ctx, r.ID); err == nil {
		c.Error("a statement of a failed transaction: error = nil, want one")
	}
	c.wantFailure("Err", tx.Err(), &store.TxError{SQLState: "23505"})
	c.must("Rollback", tx.Rollback(c.Context()))
	c.wantFailure("Err after the end", tx.Err(), &store.TxError{SQLState: "23505"})
}

// wantFailure compares the kinds of failure that a guard distinguishes.
func (c *check) wantFailure(what string, got, failure error) {
	c.Helper()
	want(c, what, failureKind(got), failureKind(failure))
}

func failureKind(err error) string {
	var refused *store.TxError
	switch {
	case err == nil:
		return "none"
	case errors.Is(err, store.ErrFateUnknown):
		return "fate unknown"
	case errors.Is(err, store.ErrConflict):
		return "conflict"
	case errors.Is(err, store.ErrTxLost):
		return "lost"
	case errors.Is(err, store.ErrTxAbandoned):
		return "abandoned"
	case errors.As(err, &refused) && refused.Commit:
		return "COMMIT refused, SQLSTATE " + refused.SQLState
	case errors.As(err, &refused):
		return "statement refused, SQLSTATE " + refused.SQLState
	default:
		return "unavailable"
	}
}
