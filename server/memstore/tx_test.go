package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func begin(t *testing.T, s *memstore.Store) store.Tx {
	t.Helper()
	tx, err := s.Begin(t.Context())
	require.NoError(t, err)
	return tx
}

func txCancel(t *testing.T, tx store.Tx, id byte) {
	t.Helper()
	_, _, err := tx.Cancel(t.Context(), cancelRequest(id, 99))
	require.NoError(t, err)
}

func TestTransaction_writesHappenInOrderAtTheCommit(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	o := claim(t, s, request(1, 1))
	tx := begin(t, s)
	seen := memstore.Tx(tx.NewContext(t.Context()))
	var got []int
	for i := range 3 {
		require.NoError(t, seen.Do(func() { got = append(got, i) }))
	}
	require.Empty(t, got)
	require.NoError(t, tx.Settle(t.Context(), o, completed))
	require.Equal(t, []int{0, 1, 2}, got)
}

func TestTransaction_afterTheEnd(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	ends := []struct {
		name string
		end  func(tx store.Tx) error
	}{
		{"commit", func(tx store.Tx) error { return tx.Settle(t.Context(), claim(t, s, request(1, 1)), completed) }},
		{"rollback", func(tx store.Tx) error { return tx.Rollback(t.Context()) }},
		{"refused settlement", func(tx store.Tx) error {
			if err := tx.Settle(t.Context(), store.Owner{}, store.Settlement{}); !errors.Is(err, memstore.ErrArgument) {
				return err
			}
			return nil
		}},
	}
	for _, e := range ends {
		tx := begin(t, s)
		seen := memstore.Tx(tx.NewContext(t.Context()))
		require.NoError(t, e.end(tx), e.name)
		require.ErrorIs(t, seen.Do(func() { t.Error("a write ran") }), memstore.ErrTxDone, e.name)
		require.ErrorIs(t, seen.Doom(), memstore.ErrTxDone, e.name)
		require.ErrorIs(t, tx.Settle(t.Context(), store.Owner{}, completed), memstore.ErrTxDone, e.name)
		_, _, err := tx.Cancel(t.Context(), cancelRequest(2, 1))
		require.ErrorIs(t, err, memstore.ErrTxDone, e.name)
		require.NoError(t, tx.Rollback(t.Context()), e.name)
		require.NoError(t, tx.Err(), e.name)
	}
	_, err := s.Read(t.Context(), store.ID{2})
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestTransaction_outsideARun(t *testing.T) {
	t.Parallel()
	none := memstore.Tx(t.Context())
	require.Nil(t, none)
	require.ErrorIs(t, none.Do(func() { t.Error("a write ran") }), memstore.ErrNoTx)
	require.ErrorIs(t, none.Doom(), memstore.ErrNoTx)
}

func TestTransaction_doomed(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	o := claim(t, s, request(1, 1))
	tx := begin(t, s)
	seen := memstore.Tx(tx.NewContext(t.Context()))
	require.NoError(t, seen.Do(func() { t.Error("a write ran") }))
	txCancel(t, tx, 2)
	require.NoError(t, tx.Err())
	require.NoError(t, seen.Doom())
	require.ErrorIs(t, tx.Err(), store.ErrConflict)
	require.ErrorIs(t, seen.Do(func() { t.Error("a write ran") }), store.ErrConflict)
	claim(t, s, request(2, 1)) // its lock is gone at once
	_, _, err := tx.Cancel(t.Context(), cancelRequest(3, 1))
	require.ErrorIs(t, err, store.ErrConflict)
	require.ErrorIs(t, tx.Settle(t.Context(), o, completed), store.ErrConflict)
	require.ErrorIs(t, tx.Err(), store.ErrConflict, "the verdict stays after the end")
	r, err := s.Read(t.Context(), o.ID)
	require.NoError(t, err)
	require.Equal(t, store.StateInProgress, r.State)
}

// A write that panics ends its run, and leaves the store usable.
func TestTransaction_writeThatPanics(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	o := claim(t, s, request(1, 1))
	tx := begin(t, s)
	txCancel(t, tx, 2)
	require.NoError(t, memstore.Tx(tx.NewContext(t.Context())).Do(func() { panic("boom") }))
	require.PanicsWithValue(t, "boom", func() { _ = tx.Settle(t.Context(), o, completed) })
	r, err := s.Read(t.Context(), o.ID)
	require.NoError(t, err)
	require.Equal(t, store.StateInProgress, r.State)
	claim(t, s, request(2, 1)) // the lock is gone too
}

// A call that waits for a locked record ends in time, and changes nothing.
func TestLock_timeout(t *testing.T) {
	t.Parallel()
	calls := []struct {
		name string
		do   func(ctx context.Context, s *memstore.Store) error
	}{
		{"Claim", func(ctx context.Context, s *memstore.Store) error {
			_, _, err := s.Claim(ctx, request(1, 2))
			return err
		}},
		{"TakeOver", func(ctx context.Context, s *memstore.Store) error {
			_, _, err := s.TakeOver(ctx, request(1, 2), 1)
			return err
		}},
		{"Quarantine", func(ctx context.Context, s *memstore.Store) error {
			_, _, err := s.Quarantine(ctx, store.QuarantineRequest{ID: store.ID{1}, From: 1, To: store.StateQuarantined})
			return err
		}},
		{"Settle", func(ctx context.Context, s *memstore.Store) error {
			return s.Settle(ctx, store.Owner{ID: store.ID{1}}, completed)
		}},
		{"Cancel", func(ctx context.Context, s *memstore.Store) error {
			_, _, err := s.Cancel(ctx, cancelRequest(1, 2))
			return err
		}},
		{"Resolve", func(ctx context.Context, s *memstore.Store) error {
			_, _, err := s.Resolve(ctx, store.ResolveRequest{ID: store.ID{1}, To: store.StateReleased})
			return err
		}},
		{"Forget", func(ctx context.Context, s *memstore.Store) error {
			_, _, err := s.Forget(ctx, store.ID{1}, 1, store.Audit{})
			return err
		}},
		{"Defer", func(ctx context.Context, s *memstore.Store) error {
			_, err := s.Defer(ctx, store.ID{1}, 1, time.Hour)
			return err
		}},
		{"Tx.Cancel", func(ctx context.Context, s *memstore.Store) error {
			tx, err := s.Begin(ctx)
			if err != nil {
				return err
			}
			_, _, err = tx.Cancel(ctx, cancelRequest(1, 2))
			return errors.Join(err, tx.Rollback(ctx))
		}},
		{"Tx.Settle", func(ctx context.Context, s *memstore.Store) error {
			tx, err := s.Begin(ctx)
			if err != nil {
				return err
			}
			return tx.Settle(ctx, store.Owner{ID: store.ID{1}}, completed)
		}},
	}
	for _, call := range calls {
		t.Run(call.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				tx := begin(t, s)
				txCancel(t, tx, 1)
				start := time.Now()
				wait, begins := memstore.DefaultLockTimeout, call.name == "Claim" || call.name == "TakeOver" || call.name == "Quarantine"
				if begins {
					wait = store.MaxLockWait
				}
				err := call.do(t.Context(), s)
				require.ErrorIs(t, err, memstore.ErrLocked)
				require.Equal(t, begins || call.name == "Cancel" || call.name == "Tx.Cancel", errors.Is(err, store.ErrInProgress))
				require.Equal(t, wait, time.Since(start))

				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				require.ErrorIs(t, call.do(ctx, s), context.DeadlineExceeded)
				require.Equal(t, wait+100*time.Millisecond, time.Since(start))

				require.NoError(t, tx.Rollback(t.Context()))
				_, err = s.Read(t.Context(), store.ID{1})
				require.ErrorIs(t, err, store.ErrNotFound)
			})
		})
	}
}

// A renewal has other owners to renew, so it skips a locked record at once.
func TestLock_renewalDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		held, free := claim(t, s, request(1, 1)), claim(t, s, request(2, 1))
		tx := begin(t, s)
		txCancel(t, tx, 1)
		start := time.Now()
		got, err := s.Renew(t.Context(), []store.Owner{held, free}, time.Hour)
		require.ErrorIs(t, err, memstore.ErrLocked)
		require.Equal(t, store.Renewal{Renewed: []store.Owner{free}}, got)
		require.Zero(t, time.Since(start))
	})
}

func TestLock_readersDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		o := claim(t, s, request(1, 1))
		tx := begin(t, s)
		txCancel(t, tx, 1)
		start := time.Now()
		_, err := s.Read(t.Context(), o.ID)
		require.NoError(t, err)
		_, err = s.Stats(t.Context())
		require.NoError(t, err)
		_, won, err := s.Claim(t.Context(), request(1, 2))
		require.NoError(t, err)
		require.False(t, won)
		require.Zero(t, time.Since(start))
		require.NoError(t, tx.Rollback(t.Context()))
	})
}

func TestLock_sweepPassesOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		_, _, err := s.Cancel(t.Context(), cancelRequest(1, 1))
		require.NoError(t, err)
		time.Sleep(2 * time.Hour)
		tx := begin(t, s)
		txCancel(t, tx, 1)
		n, err := s.Sweep(t.Context(), 10)
		require.NoError(t, err)
		require.Zero(t, n)
		require.NoError(t, tx.Rollback(t.Context()))
		n, err = s.Sweep(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

// If two transactions wait for each other, one of them is at once the victim,
// and the other goes on at once.
func TestLock_deadlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := memstore.New(), time.Now()
		survivor, victim := begin(t, s), begin(t, s)
		txCancel(t, survivor, 1)
		txCancel(t, victim, 2)
		waited := make(chan error)
		go func() {
			_, _, err := survivor.Cancel(t.Context(), cancelRequest(2, 1))
			waited <- err
		}()
		synctest.Wait()
		_, _, err := victim.Cancel(t.Context(), cancelRequest(1, 2))
		require.ErrorIs(t, err, store.ErrConflict)
		require.ErrorIs(t, victim.Err(), store.ErrConflict)
		require.NoError(t, <-waited)
		require.NoError(t, survivor.Err())
		require.Zero(t, time.Since(start))

		// The victim's second attempt waits behind the survivor.
		require.NoError(t, victim.Rollback(t.Context()))
		again := begin(t, s)
		go func() {
			_, _, err := again.Cancel(t.Context(), cancelRequest(2, 3))
			waited <- err
		}()
		synctest.Wait()
		require.NoError(t, survivor.Settle(t.Context(), claim(t, s, request(9, 1)), completed))
		require.NoError(t, <-waited)
		require.NoError(t, again.Rollback(t.Context()))
	})
}

// A circle may lead through the settlement of one's own key.
func TestLock_deadlockInSettle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		one, two := claim(t, s, request(1, 1)), claim(t, s, request(2, 1))
		survivor, victim := begin(t, s), begin(t, s)
		txCancel(t, survivor, 2)
		txCancel(t, victim, 1)
		waited := make(chan error)
		go func() { waited <- survivor.Settle(t.Context(), one, completed) }()
		synctest.Wait()
		require.ErrorIs(t, victim.Settle(t.Context(), two, completed), store.ErrConflict)
		require.NoError(t, <-waited)
	})
}

// A later transaction does not overtake a waiting transaction. Otherwise the
// victim of a deadlock could take its locks back each time before the survivor
// wakes.
func TestLock_firstComeFirstServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		holder, first, second := begin(t, s), begin(t, s), begin(t, s)
		txCancel(t, holder, 1)
		order := make(chan string, 2)
		wait := func(name string, tx store.Tx) {
			if _, _, err := tx.Cancel(t.Context(), cancelRequest(1, 1)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			order <- name
		}
		go wait("first", first)
		synctest.Wait()
		require.NoError(t, holder.Rollback(t.Context()))
		wait2 := make(chan struct{})
		go func() { // may get to the store before the first wakes
			defer close(wait2)
			wait("second", second)
		}()
		synctest.Wait()
		require.NoError(t, first.Rollback(t.Context()))
		<-wait2
		require.NoError(t, second.Rollback(t.Context()))
		require.Equal(t, "first", <-order)
		require.Equal(t, "second", <-order)
	})
}
