package pgstore_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// The store refuses invalid arguments before it asks the database: here its
// pool is closed.
func TestArguments(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{})
	s.Close()
	claimWith := func(change func(*store.ClaimRequest)) func(context.Context) error {
		req := newClaim()
		change(&req)
		return func(ctx context.Context) error { _, _, err := s.Claim(ctx, req); return err }
	}
	resolveWith := func(change func(*store.ResolveRequest)) func(context.Context) error {
		req := store.ResolveRequest{ID: random(), From: 1, To: store.StateReleased, Token: random(), By: someone}
		change(&req)
		return func(ctx context.Context) error { _, _, err := s.Resolve(ctx, req); return err }
	}
	for _, tt := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"claim without effect", claimWith(func(r *store.ClaimRequest) { r.Effect = 0 })},
		{"claim with an unknown effect", claimWith(func(r *store.ClaimRequest) { r.Effect = store.Opaque + 1 })},
		{"claim without lease", claimWith(func(r *store.ClaimRequest) { r.Lease = 0 })},
		{"claim with a negative retention", claimWith(func(r *store.ClaimRequest) { r.Keep = -1 })},
		{"claim beyond the clock's end", claimWith(func(r *store.ClaimRequest) { r.Keep = math.MaxInt64 })},
		{"claim with a negative window", claimWith(func(r *store.ClaimRequest) { r.Window = -1 })},
		{"take over without effect", func(ctx context.Context) error {
			_, _, err := s.TakeOver(ctx, store.ClaimRequest{Lease: time.Minute}, 1)
			return err
		}},
		{"quarantine alive", func(ctx context.Context) error {
			_, _, err := s.Quarantine(ctx, store.QuarantineRequest{ID: random(), From: 1, To: store.StateReleased})
			return err
		}},
		{"renew for no time", func(ctx context.Context) error {
			_, err := s.Renew(ctx, []store.Owner{{ID: random()}}, 0)
			return err
		}},
		{"settle to cancelled", func(ctx context.Context) error {
			return s.Settle(ctx, store.Owner{ID: random()}, store.Settlement{State: store.StateCancelled})
		}},
		{"cancel with a negative retention", func(ctx context.Context) error {
			_, _, err := s.Cancel(ctx, store.CancelRequest{ID: random(), Keep: -1})
			return err
		}},
		{"sweep nothing", func(ctx context.Context) error { _, err := s.Sweep(ctx, 0); return err }},
		{"resolve to unknown", resolveWith(func(r *store.ResolveRequest) { r.To = store.StateUnknown })},
		{"resolve with less than no recovery attempts", resolveWith(func(r *store.ResolveRequest) { r.RecoveryAttempts = -1 })},
		{"resolve with more recovery attempts than fit", resolveWith(func(r *store.ResolveRequest) { r.RecoveryAttempts = math.MaxInt32 + 1 })},
		{"resolve with a negative retention", resolveWith(func(r *store.ResolveRequest) { r.Keep = -1 })},
		{"resolve to an answer from the past", resolveWith(func(r *store.ResolveRequest) { r.To, r.ReplayFor = store.StateCompleted, -1 })},
		{"defer for no time", func(ctx context.Context) error { _, err := s.Defer(ctx, random(), 1, 0); return err }},
	} {
		require.ErrorIs(t, tt.do(t.Context()), pgstore.ErrArgument, tt.name)
	}
}
