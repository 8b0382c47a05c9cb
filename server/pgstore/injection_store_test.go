package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// An operation is a call of the store, and the record that the call leaves.
type operation struct {
	name string
	// put leaves the record that the operation begins with, and returns a
	// function that does it, with the same arguments every time.
	put  func(t *testing.T, s *pgstore.Store) (id store.ID, do func(ctx context.Context) error)
	want func(r store.Record, err error) bool
}

func in(state store.State, fence int64) func(store.Record, error) bool {
	return func(r store.Record, err error) bool { return err == nil && r.State == state && r.Fence == fence }
}

var someone = store.Audit{Verb: store.VerbResolve, Actor: "ann", Reason: "a test"}

// lapsed is a claim whose owner is dead.
func lapsed(t *testing.T, s *pgstore.Store, effect store.Effect) store.Record {
	t.Helper()
	req := newClaim()
	req.Lease, req.Effect = time.Microsecond, effect
	claimAs(t, s, req)
	return read(t, s, req.ID)
}

func unknown(t *testing.T, s *pgstore.Store) store.Record {
	t.Helper()
	r := lapsed(t, s, store.Opaque)
	r, _, err := s.Quarantine(t.Context(), store.QuarantineRequest{ID: r.ID, From: r.Fence, To: store.StateUnknown})
	require.NoError(t, err)
	return r
}

// A sweep has steps: a failed sweep may have ended at this state.
const sweeping = "sweep"

// onceOf is a request of a new key, and the record that it leaves.
func onceOf() (store.ID, pgstore.OnceRequest) {
	key := childkey.MustNew()
	return store.NewID("tenant", "", key), pgstore.OnceRequest{Scope: "tenant", Name: "invoice", Key: key}
}

var operations = []operation{
	{"claim", func(_ *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		req := newClaim()
		return req.ID, func(ctx context.Context) error { _, _, err := s.Claim(ctx, req); return err }
	}, in(store.StateInProgress, 1)},
	{"take over", func(t *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		req := claimOf(lapsed(t, s, store.Keyed).ID)
		return req.ID, func(ctx context.Context) error { _, _, err := s.TakeOver(ctx, req, 1); return err }
	}, in(store.StateInProgress, 2)},
	{"quarantine", func(t *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		req := store.QuarantineRequest{ID: lapsed(t, s, store.Opaque).ID, From: 1, To: store.StateUnknown}
		return req.ID, func(ctx context.Context) error { _, _, err := s.Quarantine(ctx, req); return err }
	}, in(store.StateUnknown, 1)},
	{"renew", func(t *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		o := claim(t, s)
		return o.ID, func(ctx context.Context) error { _, err := s.Renew(ctx, []store.Owner{o}, 2*time.Hour); return err }
	}, func(r store.Record, err error) bool { return err == nil && r.LeaseLeft() > time.Hour }},
	{"settle", func(t *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		o := claim(t, s)
		return o.ID, func(ctx context.Context) error { return s.Settle(ctx, o, completion) }
	}, in(store.StateCompleted, 1)},
	{"cancel", func(_ *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		req := store.CancelRequest{ID: random(), Token: random(), Keep: time.Hour}
		return req.ID, func(ctx context.Context) error { _, _, err := s.Cancel(ctx, req); return err }
	}, in(store.StateCancelled, 1)},
	{"cancel of a dead run", func(t *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		req := store.CancelRequest{ID: lapsed(t, s, store.Keyed).ID, Token: random(), Keep: time.Hour}
		return req.ID, func(ctx context.Context) error { _, _, err := s.Cancel(ctx, req); return err }
	}, in(store.StateCancelled, 2)},
	{"resolve", func(t *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		req := store.ResolveRequest{ID: unknown(t, s).ID, From: 1, To: store.StateReleased, Token: random(), By: someone}
		return req.ID, func(ctx context.Context) error { _, _, err := s.Resolve(ctx, req); return err }
	}, in(store.StateReleased, 2)},
	{"defer", func(t *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		id := unknown(t, s).ID
		return id, func(ctx context.Context) error { _, err := s.Defer(ctx, id, 1, 2*time.Hour); return err }
	}, func(r store.Record, err error) bool { return err == nil && r.LeaseLeft() > time.Hour }},
	{"forget", func(t *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		id := unknown(t, s).ID
		return id, func(ctx context.Context) error {
			if _, _, err := s.Forget(ctx, id, 1, someone); err != nil && !isNotFound(err) {
				return err
			}
			return nil
		}
	}, func(_ store.Record, err error) bool { return isNotFound(err) }},
	{"once", func(_ *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		id, req := onceOf()
		return id, func(ctx context.Context) error {
			_, err := s.OnceFunc(ctx, req, func(context.Context, pgx.Tx) error { return nil })
			return err
		}
	}, in(store.StateCompleted, 1)},
	{"once, pipelined", func(_ *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		id, req := onceOf()
		return id, func(ctx context.Context) error {
			batch := new(pgx.Batch)
			batch.Queue("select 1")
			_, err := s.SendOnce(ctx, req, batch)
			return err
		}
	}, in(store.StateCompleted, 1)},
	{sweeping, func(t *testing.T, s *pgstore.Store) (store.ID, func(context.Context) error) {
		req := store.CancelRequest{ID: random(), Token: random()}
		_, _, err := s.Cancel(t.Context(), req)
		require.NoError(t, err)
		return req.ID, func(ctx context.Context) error { _, err := s.Sweep(ctx, 1000); return err }
	}, func(_ store.Record, err error) bool { return isNotFound(err) }},
}

// Each operation that failed in some round trip can be sent again unchanged,
// and then has happened once. If its error said that nothing had happened, that
// was true.
func TestInjection_operations(t *testing.T) {
	t.Parallel()
	for _, op := range operations {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			i := new(pgkittest.Injector)
			s, look := open(t, pgstore.Config{}, i.Under)
			for range 4 {
				_, do := op.put(t, s)
				require.NoError(t, do(t.Context()))
			}
			var id store.ID
			var do func(context.Context) error
			var failed error
			i.EveryFault(t, func() { id, do = op.put(t, s) }, func(ctx context.Context) {
				failed = do(ctx)
			}, func(t *testing.T, at string) {
				r, err := s.Read(t.Context(), id)
				if op.name != sweeping && op.want(r, err) && !errors.Is(failed, store.ErrFateUnknown) {
					require.NoError(t, failed, "%s, and it had happened", at)
				}
				require.Eventually(t, func() bool { return do(t.Context()) == nil }, time.Minute, 5*time.Millisecond, at)
				r, err = s.Read(t.Context(), id)
				require.True(t, op.want(r, err), "%s: record %+v, error %v", at, r, err)
			})
			once := queryRow[int](t, look, "select count(*) from (select from idempotency_audit group by key having count(*) > 1) twice")
			require.Zero(t, once, "keys with more than one entry in the log")
		})
	}
}

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }
