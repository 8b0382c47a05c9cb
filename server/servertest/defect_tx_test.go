package servertest

import (
	"context"
	"errors"
	"sync"

	"github.com/fanonce/fanonce/server/store"
)

var txDefects = []defect{
	{"lets effects out before the commit", func(m *mutant) { m.marred.early = true }, []string{
		"tx: effects and record commit together",
		"tx: a rollback leaves nothing",
		"tx: a lost lease rolls everything back",
	}},
	{"takes a key that is being decided about for a lost store", func(m *mutant) {
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			r, won, err := m.Store.Claim(ctx, req)
			if errors.Is(err, store.ErrInProgress) {
				err = errors.New("timeout")
			}
			return r, won, err
		}
	}, []string{"tx cancel: a claim and a take-over return ErrInProgress soon"}},
	{"settles beside the transaction", func(m *mutant) {
		m.beginWith(func(tx *mutantTx) {
			tx.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
				return errors.Join(m.Store.Settle(ctx, o, s), tx.Tx.Rollback(ctx))
			}
		})
	}, []string{
		"tx: effects and record commit together",
		"tx: a run can be released in its transaction",
		"tx cancel: the cancel commits with the run that undoes",
	}},
	{"commits the effects of zombies", func(m *mutant) {
		m.beginWith(func(tx *mutantTx) {
			tx.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
				other := request(newID())
				r, _, err := m.Store.Claim(ctx, other)
				if err != nil {
					return err
				}
				if now, err := m.Store.Read(ctx, o.ID); err == nil && owner(now) == o && now.State == store.StateInProgress {
					return tx.Tx.Settle(ctx, o, s)
				}
				return errors.Join(tx.Tx.Settle(ctx, owner(r), s), store.ErrLeaseLost)
			}
		})
	}, []string{
		"tx: a lost lease rolls everything back",
		"tx: a transaction left open during a take-over changes nothing",
		"tx: an owner and its successor never both commit",
	}},
	{"does not look at the owner in a transaction", func(m *mutant) {
		m.beginWith(func(tx *mutantTx) {
			tx.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
				if r, err := m.Store.Read(ctx, o.ID); err == nil {
					o = owner(r)
				}
				return tx.Tx.Settle(ctx, o, s)
			}
		})
	}, []string{
		"tx: a lost lease rolls everything back",
		"tx: a transaction left open during a take-over changes nothing",
		"tx: an owner and its successor never both commit",
	}},
	{"loses the dead letters of transactions", func(m *mutant) {
		m.beginWith(func(tx *mutantTx) {
			tx.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
				s.DeadLetter = false
				return tx.Tx.Settle(ctx, o, s)
			}
		})
	}, []string{"tx: a dead letter commits with its run"}},
	{"knows no completion that a transaction made", func(m *mutant) {
		var done sync.Map
		m.beginWith(func(tx *mutantTx) {
			tx.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
				done.Store(o, true)
				return tx.Tx.Settle(ctx, o, s)
			}
		})
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			if _, ok := done.Load(o); ok {
				return store.ErrLeaseLost
			}
			return m.Store.Settle(ctx, o, s)
		}
	}, []string{"tx: a completion whose answer was lost can be repeated"}},
	{"only completes in a transaction", func(m *mutant) {
		m.beginWith(func(tx *mutantTx) {
			tx.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
				s.State = store.StateCompleted
				return tx.Tx.Settle(ctx, o, s)
			}
		})
	}, []string{"tx: a run can be released in its transaction"}},
	{"rolls back instead of a commit", func(m *mutant) {
		m.beginWith(func(tx *mutantTx) { tx.commit = func(ctx context.Context) error { return tx.Tx.Rollback(ctx) } })
	}, []string{"tx: a commit without a settlement keeps the effects, or says why not"}},
	{"commits on rollback", func(m *mutant) {
		m.beginWith(func(tx *mutantTx) {
			tx.rollback = func(ctx context.Context) error {
				r, _, err := m.Store.Claim(context.WithoutCancel(ctx), request(newID()))
				if err == nil {
					_ = tx.Tx.Settle(context.WithoutCancel(ctx), owner(r), release)
				}
				return tx.Tx.Rollback(ctx)
			}
		})
	}, []string{
		"tx: a rollback leaves nothing",
		"tx: concurrent transactions of several keys do not disturb each other",
	}},
	{"cancels outside the transaction", func(m *mutant) {
		m.beginWith(func(tx *mutantTx) { tx.cancel = m.Store.Cancel })
	}, []string{
		"tx cancel: the cancel is invisible before the commit, and a claim waits",
		"tx cancel: the cancel commits with the run that undoes",
		"tx cancel: an undone key commits or rolls back with the undo",
		"tx: a lost lease rolls everything back",
		"tx: a rollback leaves nothing",
	}},
	{"cancels at the end of the transaction only", func(m *mutant) {
		m.beginWith(func(tx *mutantTx) {
			var reqs []store.CancelRequest
			tx.cancel = func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
				reqs = append(reqs, req)
				r, err := m.Store.Read(ctx, req.ID)
				if errors.Is(err, store.ErrNotFound) {
					return store.Record{}, false, nil
				}
				return r, err == nil, err
			}
			tx.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
				for _, req := range reqs {
					if _, _, err := tx.Tx.Cancel(ctx, req); err != nil {
						return errors.Join(err, tx.Tx.Rollback(ctx))
					}
				}
				return tx.Tx.Settle(ctx, o, s)
			}
		})
	}, []string{
		"tx cancel: the cancel is invisible before the commit, and a claim waits",
		"tx cancel: two undo runs of one key at the same time",
		"tx cancel: the record of a running key holds until the transaction ends",
		"tx cancel: a take-over waits for the end of the transaction",
	}},
	{"locks what it cancels in one order, and never gives up", func(m *mutant) {
		var locks sync.Map
		m.beginWith(func(tx *mutantTx) {
			var held []chan struct{}
			unlock := func() {
				for _, l := range held {
					<-l
				}
				held = nil
			}
			tx.cancel = func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
				l, _ := locks.LoadOrStore(req.ID, make(chan struct{}, 1))
				lock, _ := l.(chan struct{})
				select {
				case lock <- struct{}{}:
					held = append(held, lock)
				case <-ctx.Done():
					return store.Record{}, false, ctx.Err()
				}
				return tx.Tx.Cancel(ctx, req)
			}
			tx.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
				defer unlock()
				return tx.Tx.Settle(ctx, o, s)
			}
			tx.rollback = func(ctx context.Context) error {
				defer unlock()
				return tx.Tx.Rollback(ctx)
			}
		})
	}, []string{"tx cancel: two undo runs in opposite order both end"}},
	{"locks only what it changes", func(m *mutant) {
		m.beginWith(func(tx *mutantTx) {
			tx.cancel = func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
				r, err := m.Store.Read(ctx, req.ID)
				if err == nil && r.State == store.StateInProgress && r.LeaseLeft() > 0 {
					return r, true, nil
				}
				return tx.Tx.Cancel(ctx, req)
			}
		})
	}, []string{"tx cancel: the record of a running key holds until the transaction ends"}},
	{"runs one transaction at a time, and fails the others", func(m *mutant) {
		var mu sync.Mutex
		m.beginWith(func(tx *mutantTx) {
			free := mu.TryLock()
			var once sync.Once
			unlock := func() {
				if free {
					once.Do(mu.Unlock)
				}
			}
			tx.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
				defer unlock()
				if !free {
					return errors.Join(tx.Tx.Rollback(ctx), store.ErrConflict)
				}
				return tx.Tx.Settle(ctx, o, s)
			}
			tx.rollback = func(ctx context.Context) error {
				defer unlock()
				return tx.Tx.Rollback(ctx)
			}
		})
	}, []string{
		"tx: a transaction left open during a take-over changes nothing",
		"tx: an owner and its successor never both commit",
	}},
	{"says nothing of failures", func(m *mutant) {
		m.beginWith(func(tx *mutantTx) { tx.err = func() error { return nil } })
	}, []string{
		"tx: a failure that the handler ignored prevents the commit, and Err has its kind",
		"tx: of several failures the first one counts",
	}},
	{"takes every failure for a conflict", func(m *mutant) {
		m.beginWith(func(tx *mutantTx) {
			tx.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
				if err := tx.Tx.Settle(ctx, o, s); err != nil {
					return errors.Join(store.ErrConflict, err)
				}
				return nil
			}
		})
	}, []string{"tx: a failure that the handler ignored prevents the commit, and Err has its kind"}},
}
