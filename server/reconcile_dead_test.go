package server_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func attention(tb testing.TB, s store.Store) store.Attention {
	tb.Helper()
	a, err := s.Reader().Attention(tb.Context())
	require.NoError(tb, err)
	return a
}

func sweep(tb testing.TB, g *server.Guard) {
	tb.Helper()
	_, err := g.Sweep(tb.Context())
	require.NoError(tb, err)
}

// An Opaque run that died needs a person even if nobody repeats its call. A sweeper makes it so, once the owner has been
// dead for a lease, whatever guard it belonged to. The other classes need nobody.
func TestSweep_deadRunThatNobodyAsksFor(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared, seen := memstore.New(), new(witness)
				g := newGuard(t, shared, server.Config{Observer: seen})
				die(t, shared, effect, server.Config{Namespace: "another"})
				sweep(t, g)
				require.Zero(t, attention(t, shared), "its owner may be late")
				time.Sleep(server.DefaultLease)
				sweep(t, g)
				want := int64(0)
				if effect == server.Opaque {
					want = 1
				}
				require.Equal(t, want, attention(t, shared).Unknown)
				require.EqualValues(t, want, seen.count(server.EventUnknown))
				sweep(t, g)
				require.EqualValues(t, want, seen.count(server.EventUnknown), "once")
			})
		})
	}
}

// A run whose every owner died is quarantined by the sweeper too, as by the next call.
func TestSweep_deadTooOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		g := newGuard(t, shared, server.Config{MaxRecoveryAttempts: 1})
		for range 2 {
			die(t, shared, server.Opaque, server.Config{})
			time.Sleep(server.DefaultLease)
			sweep(t, g)
			stuck, err := g.ListStuck(t.Context(), store.ListRequest{})
			require.NoError(t, err)
			require.Len(t, stuck, 1)
			if stuck[0].State == server.StateUnknown { // a reconciler keeps the count
				_, ok, err := shared.Resolve(t.Context(), store.ResolveRequest{
					ID: stuck[0].ID, From: stuck[0].Fence, To: server.StateReleased, Token: store.Token{1}, RecoveryAttempts: 1,
					By: store.Audit{Verb: store.VerbResolve, Actor: "reconciler", Reason: "never happened"},
				})
				require.NoError(t, err)
				require.True(t, ok)
			}
		}
		require.EqualValues(t, 1, attention(t, shared).Quarantined)
	})
}

// A slow owner settles the key that a sweeper made unknown, unless a person was faster.
func TestSweep_lateOwnerSettles(t *testing.T) {
	t.Parallel()
	for _, resolved := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			shared := memstore.New()
			h := newRoute(t, newGuard(t, deaf(shared), server.Config{}), server.Opaque, func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(3 * server.DefaultLease)
				w.WriteHeader(http.StatusCreated)
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				send(h, "k", "b")
			}()
			time.Sleep(2 * server.DefaultLease)
			g := newGuard(t, shared, server.Config{})
			sweep(t, g)
			stuck, err := g.ListStuck(t.Context(), store.ListRequest{})
			require.NoError(t, err)
			require.Len(t, stuck, 1)
			require.Equal(t, server.StateUnknown, stuck[0].State)
			want := server.StateCompleted
			if resolved {
				require.NoError(t, g.Resolve(t.Context(), stuck[0].ID, stuck[0].Fence, server.Abandoned(), ann))
				want = server.StateCancelled
			}
			<-done
			rec, err := shared.Read(t.Context(), store.NewID("unscoped", "", childkey.MustParse("k")))
			require.NoError(t, err)
			require.Equal(t, want, rec.State)
			require.Zero(t, attention(t, shared))
		})
	}
}

// A late owner that renews its lease between the look and the move stays the owner.
func TestSweep_ownerRenewsMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		id := store.NewID("unscoped", "", childkey.MustParse("k"))
		rec, _, err := shared.Claim(t.Context(), store.ClaimRequest{ID: id, Token: store.Token{1}, Effect: server.Opaque, Lease: time.Second, Keep: time.Hour})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		s := &renewing{Store: shared, owner: store.Owner{ID: id, Token: rec.Token, Fence: rec.Fence}}
		sweep(t, newGuard(t, s, server.Config{}))
		require.True(t, s.renewed)
		require.Zero(t, attention(t, shared))
	})
}

type renewing struct {
	store.Store

	owner   store.Owner
	renewed bool
}

func (s *renewing) Quarantine(ctx context.Context, req store.QuarantineRequest) (store.Record, bool, error) {
	if _, err := s.Renew(ctx, []store.Owner{s.owner}, time.Minute); err != nil {
		return store.Record{}, false, err
	}
	s.renewed = true
	return s.Store.Quarantine(ctx, req)
}

// A store that takes too long to find dead runs is no reason to report a failure in each round.
func TestSweep_tooSlowToFindDeadRuns(t *testing.T) {
	t.Parallel()
	sweep(t, newGuard(t, slowReader{memstore.New()}, server.Config{}))
}

type slowReader struct{ store.Store }

func (s slowReader) Reader() store.Reader { return tooSlow{s.Store.Reader()} }

type tooSlow struct{ store.Reader }

func (tooSlow) List(context.Context, store.ListRequest) ([]store.Record, error) {
	return nil, fmt.Errorf("list: %w", store.ErrTooSlow)
}

// One round ends at most 1,000 dead runs, the oldest first. The next one goes on.
func TestSweep_deadRunsInRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		g := newGuard(t, shared, server.Config{})
		for n := range 1500 {
			_, _, err := shared.Claim(t.Context(), store.ClaimRequest{
				ID: store.NewID("unscoped", "", childkey.MustParse(fmt.Sprint(n))), Token: store.Token{1}, Effect: server.Opaque, Lease: time.Second, Keep: time.Hour,
			})
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		for _, want := range []int64{1000, 1500} {
			sweep(t, g)
			require.Equal(t, want, attention(t, shared).Unknown)
		}
	})
}
