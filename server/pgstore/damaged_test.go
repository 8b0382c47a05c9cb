package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// damages are changes that a person can make to a row by hand.
var damages = map[string]string{
	"state":                "state = 7",
	"effect":               "effect = 9",
	"lease without an end": "lease_until = 'infinity'",
	"made at no time":      "created_at = '-infinity'",
	"first sent never":     "first_sent = 'infinity'",
	"short fingerprint":    "fingerprint = substr(fingerprint, 2)",
	"no fingerprint":       "fingerprint = null",
	"fence":                "fence = 0",
}

// damagedStore returns a store over a database of which one row is damaged, and its ID. The
// row is that of a completed key.
func damagedStore(t *testing.T, cfg pgstore.Config, damage string) (*pgstore.Store, *pgxpool.Pool, store.ClaimRequest) {
	t.Helper()
	s, look := open(t, cfg)
	req := newClaim()
	require.NoError(t, s.Settle(t.Context(), claimAs(t, s, req), completion))
	exec(t, look, "update idempotency set "+damage)
	t.Cleanup(func() { // the final check needs a sound table
		_, err := look.Exec(context.WithoutCancel(t.Context()), "delete from idempotency where key = $1", [16]byte(req.ID))
		require.NoError(t, err)
	})
	return s, look, req
}

// A row that this package never writes is an error of its own, different from a store that cannot be reached.
func TestDamaged_isUnreadable(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		for _, cfg := range []pgstore.Config{
			{},
			{ConfirmReplays: pgstore.ConfirmAlways},
			{SeparateCommits: true, Answers: pgstore.AnswersLeaving},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				s, _, req := damagedStore(t, cfg, damage)
				_, err := s.Read(ctx, req.ID)
				requireUnreadable(t, err)
				again := claimOf(req.ID)
				_, won, err := s.Claim(ctx, again)
				requireUnreadable(t, err)
				require.False(t, won)
				_, won, err = s.TakeOver(ctx, claimOf(req.ID), 1)
				requireUnreadable(t, err)
				require.False(t, won)
				_, _, err = s.Cancel(ctx, store.CancelRequest{ID: req.ID, Token: random(), Keep: time.Hour})
				requireUnreadable(t, err)
				tx, _ := begin(t, s)
				_, _, err = tx.Cancel(ctx, store.CancelRequest{ID: req.ID, Token: random(), Keep: time.Hour})
				requireUnreadable(t, err)
			})
		}
	}
}

func requireUnreadable(tb testing.TB, err error) {
	tb.Helper()
	require.ErrorIs(tb, err, store.ErrRecordUnreadable)
	require.NotErrorIs(tb, err, store.ErrFateUnknown)
}

// One damaged row affects its own key only. A person sees it in a list with the others, and can delete it.
func TestDamaged_hidesNoOther(t *testing.T) {
	t.Parallel()
	s, look, req := damagedStore(t, pgstore.Config{}, "effect = 9, state = 4")
	other := claim(t, s)
	exec(t, look, "update idempotency set state = 4 where key = $1", [16]byte(other.ID))
	exec(t, look, `insert into idempotency_attention (created_at, noted_at, fence, key, state)
		select created_at, now(), fence, key, state from idempotency`)
	listed, err := s.Reader().List(t.Context(), store.ListRequest{Limit: 10})
	require.NoError(t, err)
	require.Len(t, listed, 2)
	require.Equal(t, req.ID, listed[0].ID)

	for _, table := range []string{"idempotency", "idempotency_attention"} {
		exec(t, look, "update "+table+" set created_at = 'infinity' where key = $1", [16]byte(req.ID))
	}
	listed, err = s.Reader().List(t.Context(), store.ListRequest{Limit: 10})
	require.NoError(t, err)
	require.Len(t, listed, 1, "what was made at no time has no place in the order")

	_, forgotten, err := s.Forget(t.Context(), req.ID, 1, store.Audit{Verb: store.VerbForget, Actor: "a", Reason: "damaged"})
	require.NoError(t, err)
	require.True(t, forgotten)
	_, err = s.Read(t.Context(), req.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// A damaged row does not fail a statement that also reads other records.
func TestDamaged_readWithOthers(t *testing.T) {
	t.Parallel()
	s, _, req := damagedStore(t, pgstore.Config{}, "state = 7")
	other := claim(t, s)
	const readers = 200
	errs := make([]error, readers)
	done := make(chan struct{}, readers)
	for i := range errs {
		go func() {
			defer func() { done <- struct{}{} }()
			id := other.ID
			if i%2 == 0 {
				id = req.ID
			}
			_, errs[i] = s.Read(t.Context(), id)
		}()
	}
	for range errs {
		<-done
	}
	for i, err := range errs {
		if i%2 == 0 {
			requireUnreadable(t, err)
		} else {
			require.NoError(t, err)
		}
	}
}

func TestDamaged_once(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{"state": "state = 7", "fingerprint": "fingerprint = substr(fingerprint, 2)"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, look := open(t, pgstore.Config{})
			request := invoice(t, "k", "p")
			work := func(context.Context, pgx.Tx) error { return nil }
			first, err := s.OnceFunc(t.Context(), request, work)
			require.NoError(t, err)
			require.True(t, first)
			exec(t, look, "update idempotency set "+damage)
			first, err = s.OnceFunc(t.Context(), request, work)
			requireUnreadable(t, err)
			require.False(t, first)
			exec(t, look, "delete from idempotency")
		})
	}
}
