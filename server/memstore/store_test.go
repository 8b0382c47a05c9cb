package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func request(id, token byte) store.ClaimRequest {
	return store.ClaimRequest{
		ID: store.ID{id}, Token: store.Token{token}, Effect: store.Keyed, Lease: 30 * time.Second, Keep: time.Hour,
	}
}

func cancelRequest(id, token byte) store.CancelRequest {
	return store.CancelRequest{ID: store.ID{id}, Token: store.Token{token}, Keep: time.Hour}
}

func claim(t *testing.T, s store.Store, req store.ClaimRequest) store.Owner {
	t.Helper()
	r, won, err := s.Claim(t.Context(), req)
	require.NoError(t, err)
	require.True(t, won)
	return store.Owner{ID: r.ID, Token: r.Token, Fence: r.Fence}
}

var completed = store.Settlement{State: store.StateCompleted, Answer: store.Answer{Status: 200}, ReplayFor: time.Hour}

func TestNewWith_badConfig(t *testing.T) {
	t.Parallel()
	s, err := memstore.NewWith(memstore.Config{LockTimeout: -time.Second})
	require.ErrorIs(t, err, memstore.ErrArgument)
	require.ErrorContains(t, err, "LockTimeout -1s")
	require.Nil(t, s)
}

// In a bubble time is exact, and so the ends of leases and retentions are exact.
func TestStore_timesAreExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := memstore.New(), time.Now()
		claim(t, s, request(1, 1))
		time.Sleep(30*time.Second - time.Nanosecond)
		_, won, err := s.TakeOver(t.Context(), request(1, 2), 1)
		require.NoError(t, err)
		require.False(t, won, "taken over a nanosecond before the lease ended")
		time.Sleep(time.Nanosecond)
		r, won, err := s.TakeOver(t.Context(), request(1, 2), 1)
		require.NoError(t, err)
		require.True(t, won, "not taken over at the end of the lease")
		require.True(t, r.LeaseUntil.Equal(start.Add(time.Minute)), "lease until %v, want a minute after %v", r.LeaseUntil, start)

		require.NoError(t, s.Settle(t.Context(), store.Owner{ID: r.ID, Token: r.Token, Fence: 2}, completed))
		for _, wait := range []struct {
			until time.Duration // since start
			swept int
		}{
			{time.Hour, 0}, // past ExpiresAt, but the answer can be replayed
			{time.Hour + 30*time.Second - time.Nanosecond, 0}, // ReplayUntil is an hour after the settlement
			{time.Hour + 30*time.Second, 1},
		} {
			time.Sleep(time.Until(start.Add(wait.until)))
			n, err := s.Sweep(t.Context(), 10)
			require.NoError(t, err)
			require.Equal(t, wait.swept, n, "swept at %v", wait.until)
		}
	})
}

func TestStore_badArguments(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	o := claim(t, s, request(1, 1))
	before, err := s.Read(t.Context(), o.ID)
	require.NoError(t, err)
	claimWith := func(mar func(r *store.ClaimRequest)) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			req := request(2, 1)
			mar(&req)
			_, _, err := s.Claim(ctx, req)
			_, _, takeErr := s.TakeOver(ctx, req, 1)
			if !errors.Is(takeErr, memstore.ErrArgument) {
				return takeErr
			}
			return err
		}
	}
	tests := []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"claim without effect", claimWith(func(r *store.ClaimRequest) { r.Effect = 0 })},
		{"claim with an unknown effect", claimWith(func(r *store.ClaimRequest) { r.Effect = store.Opaque + 1 })},
		{"claim without lease", claimWith(func(r *store.ClaimRequest) { r.Lease = 0 })},
		{"claim with a negative retention", claimWith(func(r *store.ClaimRequest) { r.Keep = -1 })},
		{"claim with a negative window", claimWith(func(r *store.ClaimRequest) { r.Window = -1 })},
		{"quarantine alive", func(ctx context.Context) error {
			_, _, err := s.Quarantine(ctx, store.QuarantineRequest{ID: o.ID, From: 1, To: store.StateReleased})
			return err
		}},
		{"renew for no time", func(ctx context.Context) error {
			_, err := s.Renew(ctx, []store.Owner{o}, 0)
			return err
		}},
		{"settle to cancelled", func(ctx context.Context) error {
			return s.Settle(ctx, o, store.Settlement{State: store.StateCancelled})
		}},
		{"settle to nothing", func(ctx context.Context) error { return s.Settle(ctx, o, store.Settlement{}) }},
		{"cancel with a negative retention", func(ctx context.Context) error {
			_, _, err := s.Cancel(ctx, store.CancelRequest{ID: o.ID, Keep: -1})
			return err
		}},
		{"sweep nothing", func(ctx context.Context) error {
			_, err := s.Sweep(ctx, 0)
			return err
		}},
		{"list nothing", func(ctx context.Context) error {
			_, err := s.Reader().List(ctx, store.ListRequest{})
			return err
		}},
		{"resolve to unknown", func(ctx context.Context) error {
			_, _, err := s.Resolve(ctx, store.ResolveRequest{ID: o.ID, From: 1, To: store.StateUnknown})
			return err
		}},
		{"resolve with less than no deaths", func(ctx context.Context) error {
			_, _, err := s.Resolve(ctx, store.ResolveRequest{ID: o.ID, From: 1, To: store.StateReleased, RecoveryAttempts: -1})
			return err
		}},
		{"defer for no time", func(ctx context.Context) error {
			_, err := s.Defer(ctx, o.ID, 1, 0)
			return err
		}},
	}
	for _, tt := range tests {
		require.ErrorIs(t, tt.do(t.Context()), memstore.ErrArgument, tt.name)
	}
	after, err := s.Read(t.Context(), o.ID)
	require.NoError(t, err)
	before.Now = after.Now
	require.Equal(t, before, after)
	st, err := s.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[store.State]int64{store.StateInProgress: 1}, st.ByState)
}

// A clock panics. It is called under the store's lock; the panic passes on, and leaves neither the lock nor a half of a
// change behind.
func TestCallbacks_now(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for name, call := range map[string]func(s *memstore.Store, o store.Owner) error{
		"Claim": func(s *memstore.Store, _ store.Owner) error { _, _, err := s.Claim(ctx, request(2, 2)); return err },
		"TakeOver": func(s *memstore.Store, _ store.Owner) error {
			_, _, err := s.TakeOver(ctx, request(1, 2), 1)
			return err
		},
		"Renew": func(s *memstore.Store, o store.Owner) error {
			_, err := s.Renew(ctx, []store.Owner{o}, time.Hour)
			return err
		},
		"Settle": func(s *memstore.Store, o store.Owner) error { return s.Settle(ctx, o, completed) },
		"Cancel": func(s *memstore.Store, _ store.Owner) error {
			_, _, err := s.Cancel(ctx, cancelRequest(2, 2))
			return err
		},
		"Read":  func(s *memstore.Store, o store.Owner) error { _, err := s.Read(ctx, o.ID); return err },
		"Sweep": func(s *memstore.Store, _ store.Owner) error { _, err := s.Sweep(ctx, 1); return err },
		"Reader": func(s *memstore.Store, _ store.Owner) error {
			_, err := s.Reader().List(ctx, store.ListRequest{Limit: 1})
			return err
		},
		"Tx.Settle": func(s *memstore.Store, o store.Owner) error {
			return inTx(ctx, s, func(tx store.Tx) error { return tx.Settle(ctx, o, completed) })
		},
		"Tx.Cancel": func(s *memstore.Store, _ store.Owner) error {
			return inTx(ctx, s, func(tx store.Tx) error { _, _, err := tx.Cancel(ctx, cancelRequest(2, 2)); return err })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var panics bool
			s, err := memstore.NewWith(memstore.Config{Now: func() time.Time {
				if panics {
					panic("boom")
				}
				return time.Now()
			}})
			require.NoError(t, err)
			o := claim(t, s, request(1, 1))
			before, err := s.Read(ctx, o.ID)
			require.NoError(t, err)
			panics = true
			require.PanicsWithValue(t, "boom", func() { _ = call(s, o) })
			panics = false
			returned := make(chan error, 1)
			go func() {
				after, err := s.Read(ctx, o.ID)
				after.Now = before.Now
				assert.Equal(t, before, after)
				_, stored := s.Read(ctx, store.ID{2})
				assert.ErrorIs(t, stored, store.ErrNotFound)
				returned <- errors.Join(err, call(s, o))
			}()
			select {
			case err := <-returned:
				require.NoError(t, err)
			case <-ctx.Done():
				require.Fail(t, "the store is still locked")
			}
		})
	}
}

// inTx calls do in a transaction that ends by a rollback.
func inTx(ctx context.Context, s *memstore.Store, do func(store.Tx) error) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	return do(tx)
}
