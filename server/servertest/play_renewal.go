package servertest

import (
	"fmt"
	"slices"

	"github.com/fanonce/fanonce/server/store"
)

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
