package pgstore_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// undecide lets a transaction cancel a key and stay open, like the transaction of an undo before its forward call.
func undecide(t *testing.T, holder *pgstore.Store, id store.ID) store.Tx {
	t.Helper()
	tx, err := holder.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, _, err = tx.Cancel(t.Context(), store.CancelRequest{ID: id, Token: random(), Keep: time.Hour})
	require.NoError(t, err)
	return tx
}

// One key in a queue of a hundred is held by a transaction. It is set aside, and the others share their commits
// without it. Its claim soon gets an error: a transaction is deciding about the key.
func TestLockedKeys_oneOfAFlush(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgstore.Config{})
	holder := openOn(t, look, pgstore.Config{})
	s, _ := poolOf(t, look, pgstore.Config{}, size(3)) // one flush at a time
	id := store.ID(random())
	undecide(t, holder, id)
	began := time.Now()
	errs := flushing(t, s, 3, 100, func(i int) error {
		req := newClaim()
		if i == 50 {
			req.ID = id
		}
		_, _, err := s.Claim(t.Context(), req)
		return err
	})()
	for i, err := range errs {
		if i == 50 {
			require.ErrorIs(t, err, store.ErrInProgress)
			require.NotErrorIs(t, err, store.ErrFateUnknown)
			continue
		}
		require.NoError(t, err)
	}
	require.Less(t, time.Since(began), 5*time.Second)
	require.Less(t, queryRow[int](t, look, "select count(distinct xmin::text) from idempotency"), 5, "commits of 99 claims")
}

// Callers repeatedly claim keys that transactions hold. Claims of other keys go on at a rate of the same order, with
// as many such keys as the pool has connections.
func TestLockedKeys_leaveTheOthersAlone(t *testing.T) {
	rates := map[int]int64{}
	for _, locked := range []int{0, 4} {
		_, look := open(t, pgstore.Config{})
		holder := openOn(t, look, pgstore.Config{}, size(16))
		s, _ := poolOf(t, look, pgstore.Config{}, size(4)) // pgxpool's default
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var ok, failed atomic.Int64
		for range locked {
			id := store.ID(random())
			undecide(t, holder, id)
			wg.Go(func() {
				for ctx.Err() == nil {
					began := time.Now()
					_, _, err := s.Claim(context.WithoutCancel(ctx), claimOf(id))
					if !isLockTimeout(err) || time.Since(began) > 5*time.Second { // on a machine that does much else
						t.Errorf("claim of a locked key after %v: %v", time.Since(began), err)
					}
				}
			})
		}
		for range 16 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, _, err := s.Claim(context.WithoutCancel(ctx), newClaim()); err != nil {
						failed.Add(1)
					}
					ok.Add(1)
				}
			})
		}
		time.Sleep(2 * time.Second) // the length of the measurement
		rates[locked] = ok.Load() / 2
		stop()
		wg.Wait()
		require.Zero(t, failed.Load(), "claims of other keys")
	}
	t.Logf("%d claims a second without, %d with four locked keys", rates[0], rates[4])
	require.Greater(t, rates[4], rates[0]/4)
}

// A claim, a take-over and the read before a replay wait at most half a second for a transaction. They hold no
// connection meanwhile, and return an error that tells of the wait.
func TestLockedKeys_everyWayToBegin(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{ConfirmReplays: pgstore.ConfirmAlways}, size(4))
	holder := openOn(t, look, pgstore.Config{}, size(8))
	absent := newClaim()
	released, completed, dead := claim(t, s), claim(t, s), claim(t, s)
	require.NoError(t, s.Settle(t.Context(), released, store.Settlement{State: server.StateReleased}))
	require.NoError(t, s.Settle(t.Context(), completed, completion))
	exec(t, look, "update idempotency set lease_until = now() - interval '1 s' where key = $1", [16]byte(dead.ID))
	for _, id := range []store.ID{absent.ID, released.ID, completed.ID, dead.ID} {
		undecide(t, holder, id)
	}
	for name, do := range map[string]func() error{
		"claim of an absent key":   func() error { _, _, err := s.Claim(t.Context(), absent); return err },
		"claim of a completed key": func() error { _, _, err := s.Claim(t.Context(), claimOf(completed.ID)); return err },
		"read of a completed key":  func() error { _, err := s.Read(t.Context(), completed.ID); return err },
		"take-over of a released":  func() error { _, _, err := s.TakeOver(t.Context(), claimOf(released.ID), 1); return err },
		"quarantine of a dead one": func() error {
			_, _, err := s.Quarantine(t.Context(), store.QuarantineRequest{ID: dead.ID, From: 1, To: server.StateQuarantined})
			return err
		},
		"claim, each by itself": func() error {
			_, _, err := openOn(t, look, pgstore.Config{SeparateCommits: true}).Claim(t.Context(), absent)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			err := do()
			require.True(t, isLockTimeout(err), "%v", err)
			final := strings.Contains(name, "completed") // a completed key is never in progress again
			require.Equal(t, !final, errors.Is(err, store.ErrInProgress), "%v", err)
			require.Less(t, time.Since(began), store.MaxLockWait+2*time.Second) // on a machine that does much else
			require.GreaterOrEqual(t, time.Since(began), store.MaxLockWait/2)
		})
	}
}

// While a transaction is deciding about a key, its callers get in-progress with Retry-After. The answer is there once
// the transaction has ended.
func TestLockedKeys_answer(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	holder := openOn(t, look, pgstore.Config{})
	g, err := server.NewGuard(s, server.Unscoped, server.Config{Wait: 0})
	require.NoError(t, err)
	h, err := g.Handler(server.Keyed, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("done")) }))
	require.NoError(t, err)
	send := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/orders", http.NoBody)
		r.Header.Set(wire.HeaderKey, "order-42")
		r.Header.Set("Prefer", "wait=0")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	tx := undecide(t, holder, store.NewID("unscoped", "", keyOf(t, "order-42")))
	answers := make(chan *httptest.ResponseRecorder, 3)
	for range cap(answers) { // one leads, the others follow
		go func() { answers <- send() }()
	}
	for range cap(answers) {
		w := <-answers
		require.Equal(t, http.StatusConflict, w.Code, w.Body)
		require.Contains(t, w.Body.String(), string(wire.InProgress))
		require.NotEmpty(t, w.Header().Get(wire.HeaderRetryAfter))
	}
	require.NoError(t, tx.Rollback(t.Context()))
	until(t, "it runs", func() bool { return send().Code == http.StatusOK })
}
