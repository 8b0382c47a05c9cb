package pgstore_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// An undo's transaction may hold a key without a time limit. Only callers that
// need that key wait. A claim waits no longer than [store.MaxLockWait]. Its caller then asks again, as a
// request does that gets ErrInProgress. So a slow machine cannot make this test fail.
func TestCombining_lockedKey(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{LockTimeout: time.Hour}, size(2))
	undo, _ := begin(t, openOn(t, look, pgstore.Config{}))
	held := newClaim()
	_, existed, err := undo.Cancel(t.Context(), store.CancelRequest{ID: held.ID, Token: random(), Keep: time.Hour})
	require.NoError(t, err)
	require.False(t, existed)
	claims := []store.ClaimRequest{newClaim(), held, newClaim(), newClaim()}
	others := make(chan error, len(claims))
	wait := flushing(t, s, 2, len(claims), func(i int) error {
		_, won, err := s.Claim(t.Context(), claims[i])
		for i == 1 && errors.Is(err, store.ErrInProgress) {
			_, won, err = s.Claim(t.Context(), claims[i])
		}
		if err == nil && !won {
			err = errors.New("not won")
		}
		if i != 1 {
			others <- err
		}
		return err
	})
	for range len(claims) - 1 {
		require.NoError(t, <-others)
	}
	until(t, "the one that needs the key waits", func() bool { return waits(t, look, "Lock") })
	require.NoError(t, undo.Rollback(t.Context()))
	require.NoError(t, wait()[1])
}

// If the queue is full, the next caller gets an error at once and is told to come back.
func TestCombining_queueFull(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{MaxQueued: 1}, size(1))
	guard, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	ran := false
	handler, err := guard.Handler(server.Keyed, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }))
	require.NoError(t, err)
	send := func() *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodPost, "/orders", http.NoBody)
		req.Header.Set(wire.HeaderKey, "order-42")
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req)
		return rec
	}
	tx, _ := begin(t, s)
	claims := func() error { _, _, err := s.Claim(t.Context(), newClaim()); return err }
	leads, waits := inBackground(claims), inBackground(claims)
	until(t, "the queue is full", func() bool { return s.Queued() == 1 })
	err = claims()
	require.ErrorIs(t, err, pgstore.ErrQueueFull)
	require.NotErrorIs(t, err, store.ErrFateUnknown)
	refused := send()
	require.Equal(t, http.StatusServiceUnavailable, refused.Code)
	require.Equal(t, "1", refused.Header().Get(wire.HeaderRetryAfter))
	require.Contains(t, refused.Body.String(), string(wire.NotClaimed))
	require.False(t, ran)

	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-leads)
	require.NoError(t, <-waits)
	require.Equal(t, http.StatusOK, send().Code)
	require.True(t, ran)
}

// If the server does not confirm a flush, none of its callers succeeds,
// although pgx reports no error.
func TestCombining_waitForStandbyCanceled(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	s := openOn(t, look, pgstore.Config{CloseTimeout: time.Millisecond}, size(1), func(p *pgxpool.Config) {
		p.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	})
	wait := flushing(t, s, 1, 5, func(int) error { _, _, err := s.Claim(t.Context(), newClaim()); return err })
	exec(t, look, "select pg_cancel_backend($1)", backendWaiting(t, look))
	for _, err := range wait() {
		require.ErrorIs(t, err, store.ErrFateUnknown)
	}
	require.Equal(t, 5, queryRow[int](t, look, "select count(*) from idempotency"), "and yet it is there to be seen")
}

// The session of a flush ends between its commit and the answer. Each caller
// asks again, and finds its own record.
func TestCombining_sessionEndedDuringCommit(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	s := openOn(t, look, pgstore.Config{CloseTimeout: time.Millisecond}, size(1), func(p *pgxpool.Config) {
		p.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	})
	claims := make([]store.ClaimRequest, 5)
	for i := range claims {
		claims[i] = newClaim()
	}
	wait := flushing(t, s, 1, len(claims), func(i int) error { _, _, err := s.Claim(t.Context(), claims[i]); return err })
	exec(t, look, "select pg_terminate_backend($1)", backendWaiting(t, look))
	for _, err := range wait() {
		require.ErrorIs(t, err, store.ErrFateUnknown)
	}
	local := openOn(t, look, pgstore.Config{ConfirmReplays: pgstore.ConfirmNever})
	until(t, "it is to be seen", func() bool { return queryRow[int](t, look, "select count(*) from idempotency") == len(claims) })
	for _, req := range claims {
		require.EqualValues(t, 1, claimAs(t, local, req).Fence)
	}
}

// Close records all writes that were queued before it: work whose record is
// lost is done again.
func TestCombining_closeDrains(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{}, size(1))
	owners := []store.Owner{claim(t, s), claim(t, s), claim(t, s)}
	tx, _ := begin(t, s)
	done := make([]<-chan error, len(owners))
	for i, o := range owners {
		done[i] = inBackground(func() error { return s.Settle(t.Context(), o, completion) })
	}
	until(t, "they wait", func() bool { return s.Queued() == len(owners)-1 })
	closed := inBackground(func() error { s.Close(); return nil })
	until(t, "it takes no more", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, _, err := s.Claim(ctx, newClaim())
		return errors.Is(err, pgstore.ErrClosed)
	})
	require.NoError(t, tx.Rollback(t.Context()))
	for _, d := range done {
		require.NoError(t, <-d)
	}
	require.NoError(t, <-closed)
	require.Equal(t, len(owners), queryRow[int](t, look, "select count(*) from idempotency where state = 2"))
}
