package pgstore_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// What cannot be meant is refused before the database is asked: the pool is
// closed.
func TestArguments(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{})
	s.Close()
	claimWith := func(change func(*server.ClaimRequest)) func(context.Context) error {
		req := newClaim()
		change(&req)
		return func(ctx context.Context) error { _, _, err := s.Claim(ctx, req); return err }
	}
	resolveWith := func(change func(*server.ResolveRequest)) func(context.Context) error {
		req := server.ResolveRequest{ID: random(), From: 1, To: server.StateReleased, Token: random(), By: someone}
		change(&req)
		return func(ctx context.Context) error { _, _, err := s.Resolve(ctx, req); return err }
	}
	for _, tt := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"claim without effect", claimWith(func(r *server.ClaimRequest) { r.Effect = 0 })},
		{"claim with an unknown effect", claimWith(func(r *server.ClaimRequest) { r.Effect = server.Opaque + 1 })},
		{"claim without lease", claimWith(func(r *server.ClaimRequest) { r.Lease = 0 })},
		{"claim with a negative retention", claimWith(func(r *server.ClaimRequest) { r.Keep = -1 })},
		{"claim beyond the clock's end", claimWith(func(r *server.ClaimRequest) { r.Keep = math.MaxInt64 })},
		{"claim with a negative window", claimWith(func(r *server.ClaimRequest) { r.Window = -1 })},
		{"take over without effect", func(ctx context.Context) error {
			_, _, err := s.TakeOver(ctx, server.ClaimRequest{Lease: time.Minute}, 1)
			return err
		}},
		{"bury alive", func(ctx context.Context) error {
			_, _, err := s.Bury(ctx, server.BuryRequest{ID: random(), From: 1, To: server.StateReleased})
			return err
		}},
		{"renew for no time", func(ctx context.Context) error {
			_, err := s.Renew(ctx, []server.Owner{{ID: random()}}, 0)
			return err
		}},
		{"settle to cancelled", func(ctx context.Context) error {
			return s.Settle(ctx, server.Owner{ID: random()}, server.Settlement{State: server.StateCancelled})
		}},
		{"cancel with a negative retention", func(ctx context.Context) error {
			_, _, err := s.Cancel(ctx, server.CancelRequest{ID: random(), Keep: -1})
			return err
		}},
		{"sweep nothing", func(ctx context.Context) error { _, err := s.Sweep(ctx, 0); return err }},
		{"list nothing", func(ctx context.Context) error { _, err := s.List(ctx, server.ListRequest{}); return err }},
		{"list what runs since the future", func(ctx context.Context) error {
			_, err := s.List(ctx, server.ListRequest{Limit: 1, Running: -1})
			return err
		}},
		{"resolve to unknown", resolveWith(func(r *server.ResolveRequest) { r.To = server.StateUnknown })},
		{"resolve with less than no deaths", resolveWith(func(r *server.ResolveRequest) { r.Deaths = -1 })},
		{"resolve with more deaths than fit", resolveWith(func(r *server.ResolveRequest) { r.Deaths = math.MaxInt32 + 1 })},
		{"resolve with a negative retention", resolveWith(func(r *server.ResolveRequest) { r.Keep = -1 })},
		{"resolve to an answer from the past", resolveWith(func(r *server.ResolveRequest) { r.To, r.ReplayFor = server.StateCompleted, -1 })},
		{"defer for no time", func(ctx context.Context) error { _, err := s.Defer(ctx, random(), 1, 0); return err }},
		{"no line of the audit log", func(ctx context.Context) error { _, err := s.AuditLog(ctx, random(), 0); return err }},
	} {
		require.ErrorIs(t, tt.do(t.Context()), pgstore.ErrArgument, tt.name)
	}
}
