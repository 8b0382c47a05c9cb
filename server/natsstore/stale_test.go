package natsstore_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/natsstore"
	"github.com/fanonce/fanonce/server/natsstore/natstest"
	"github.com/fanonce/fanonce/server/store"
)

func random16() (b [16]byte) {
	_, _ = rand.Read(b[:])
	return b
}

func request(id store.ID) store.ClaimRequest {
	return store.ClaimRequest{
		ID: id, Token: random16(), Effect: store.Opaque, Lease: time.Hour, Keep: time.Hour,
		Fingerprint: store.Fingerprint{Version: 1, Sum: [32]byte{1}},
	}
}

func owner(r store.Record) store.Owner { return store.Owner{ID: r.ID, Token: r.Token, Fence: r.Fence} }

var (
	done   = store.Settlement{State: store.StateCompleted, Answer: store.Answer{Status: 200, Envelope: []byte("ok")}, ReplayFor: time.Hour}
	giveUp = store.Settlement{State: store.StateUnknown, MaybeRan: true}
	ann    = store.Audit{Verb: store.VerbResolve, Actor: "ann", Reason: "asked the bank"}
)

// claimed claims a key. A dead one's lease is over.
func claimed(t *testing.T, s *natsstore.Store, dead bool) store.Record {
	t.Helper()
	req := request(random16())
	if dead {
		req.Lease = time.Nanosecond
	}
	r, won, err := s.Claim(t.Context(), req)
	require.NoError(t, err)
	require.True(t, won)
	for dead && r.LeaseLeft() > 0 {
		r, err = s.Read(t.Context(), r.ID)
		require.NoError(t, err)
	}
	return r
}

// Each verb sees an entry that is out of date, and must not act on it: the write is refused, and the verb looks again.
func TestStaleReads(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	takeOver := func(t *testing.T, s *natsstore.Store, r store.Record) store.Record {
		next, won, err := s.TakeOver(t.Context(), request(r.ID), r.Fence)
		require.NoError(t, err)
		require.True(t, won)
		return next
	}
	settle := func(end store.Settlement) func(*testing.T, *natsstore.Store, store.Record) store.Record {
		return func(t *testing.T, s *natsstore.Store, r store.Record) store.Record {
			require.NoError(t, s.Settle(t.Context(), owner(r), end))
			return r
		}
	}
	resolve := func(t *testing.T, s *natsstore.Store, r store.Record) store.Record {
		_, ok, err := s.Resolve(t.Context(), store.ResolveRequest{ID: r.ID, From: r.Fence, To: store.StateReleased, Token: random16(), By: ann})
		require.NoError(t, err)
		require.True(t, ok)
		return r
	}
	live := func(t *testing.T, s *natsstore.Store) store.Record { return claimed(t, s, false) }
	dead := func(t *testing.T, s *natsstore.Store) store.Record { return claimed(t, s, true) }
	stuck := func(t *testing.T, s *natsstore.Store) store.Record { return settle(giveUp)(t, s, claimed(t, s, false)) }
	for _, tt := range []struct {
		name string
		put  func(*testing.T, *natsstore.Store) store.Record                              // makes the old state
		move func(t *testing.T, s *natsstore.Store, r store.Record) store.Record          // makes the new one
		call func(t *testing.T, s *natsstore.Store, r store.Record) (did bool, err error) // sees the old one
		want error
	}{
		{"TakeOver sees a lease that is over, and it was taken over", dead, takeOver, func(t *testing.T, s *natsstore.Store, r store.Record) (bool, error) {
			_, won, err := s.TakeOver(t.Context(), request(r.ID), r.Fence)
			return won, err
		}, nil},
		{"TakeOver sees a lease that is over, and it was completed", dead, settle(done), func(t *testing.T, s *natsstore.Store, r store.Record) (bool, error) {
			_, won, err := s.TakeOver(t.Context(), request(r.ID), r.Fence)
			return won, err
		}, nil},
		{"Quarantine sees a dead run, and it was completed", dead, settle(done), func(t *testing.T, s *natsstore.Store, r store.Record) (bool, error) {
			_, ok, err := s.Quarantine(t.Context(), store.QuarantineRequest{ID: r.ID, From: r.Fence, To: store.StateUnknown})
			return ok, err
		}, nil},
		{"Settle sees its run, and it was taken over", dead, takeOver, func(t *testing.T, s *natsstore.Store, r store.Record) (bool, error) {
			natsstore.ForgetRuns(s)
			err := s.Settle(t.Context(), owner(r), done)
			return err == nil, err
		}, store.ErrLeaseLost},
		{"Renew sees its run, and it was taken over", dead, takeOver, func(t *testing.T, s *natsstore.Store, r store.Record) (bool, error) {
			natsstore.ForgetRuns(s)
			got, err := s.Renew(t.Context(), []store.Owner{owner(r)}, time.Hour)
			require.Len(t, got.Lost, 1)
			return len(got.Renewed) == 1, err
		}, nil},
		{"Cancel sees a dead run, and it was completed", dead, settle(done), func(t *testing.T, s *natsstore.Store, r store.Record) (bool, error) {
			before, existed, err := s.Cancel(t.Context(), store.CancelRequest{ID: r.ID, Token: random16(), Keep: time.Hour})
			require.True(t, existed)
			require.Equal(t, store.StateCompleted, before.State)
			return before.State != store.StateCompleted, err
		}, nil},
		{"Resolve sees an unknown key, and it was resolved", stuck, resolve, func(t *testing.T, s *natsstore.Store, r store.Record) (bool, error) {
			_, ok, err := s.Resolve(t.Context(), store.ResolveRequest{ID: r.ID, From: r.Fence, To: store.StateCancelled, Token: random16(), By: ann})
			return ok, err
		}, nil},
		{"Forget sees an unknown key, and it was resolved", stuck, resolve, func(t *testing.T, s *natsstore.Store, r store.Record) (bool, error) {
			_, ok, err := s.Forget(t.Context(), r.ID, r.Fence, ann)
			return ok, err
		}, nil},
		{"Defer sees an unknown key, and it was resolved", stuck, resolve, func(t *testing.T, s *natsstore.Store, r store.Record) (bool, error) {
			return s.Defer(t.Context(), r.ID, r.Fence, time.Hour)
		}, nil},
		{"Claim sees that a key is absent, and it was claimed", nil, nil, func(t *testing.T, s *natsstore.Store, r store.Record) (bool, error) {
			_, won, err := s.Claim(t.Context(), request(r.ID))
			return won, err
		}, nil},
		{"Claim sees a run in progress, and it was released", live, settle(store.Settlement{State: store.StateReleased}), func(t *testing.T, s *natsstore.Store, r store.Record) (bool, error) {
			_, won, err := s.Claim(t.Context(), request(r.ID))
			return won, err
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, conn, 1)
			var r, after store.Record
			var old natsstore.Stale
			if tt.put == nil {
				r = claimed(t, s, false)
				old = natsstore.Absent(r.ID)
			} else {
				r = tt.put(t, s)
				var err error
				old, err = natsstore.Snapshot(t.Context(), s, r.ID)
				require.NoError(t, err)
				tt.move(t, s, r)
			}
			after, err := s.Read(t.Context(), r.ID)
			require.NoError(t, err)
			seen := natsstore.Inject(s, old, 2)
			did, err := tt.call(t, s, r)
			require.ErrorIs(t, err, tt.want)
			require.False(t, did, "acted on a stale read")
			require.Positive(t, seen(), "saw no stale read")
			for seen() < 2 {
				_, _ = s.Read(t.Context(), r.ID)
			}
			now, err := s.Read(t.Context(), r.ID)
			require.NoError(t, err)
			now.Now = after.Now
			require.Equal(t, after, now, "the record changed")
		})
	}
}

// The memory of own runs is only an expected revision. Another process has moved the key on.
func TestStaleMemory(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	s := newStore(t, conn, 1)
	other := reopen(t, s, conn)
	for range 2 {
		r := claimed(t, s, true)
		_, won, err := other.TakeOver(t.Context(), request(r.ID), 1)
		require.NoError(t, err)
		require.True(t, won)
		require.Positive(t, natsstore.RunsOf(s))
		require.ErrorIs(t, s.Settle(t.Context(), owner(r), done), store.ErrLeaseLost)
		got, err := s.Renew(t.Context(), []store.Owner{owner(r)}, time.Hour)
		require.NoError(t, err)
		require.Len(t, got.Lost, 1)
	}
}

// reopen opens the bucket of s once more.
func reopen(tb testing.TB, s *natsstore.Store, conn *nats.Conn) *natsstore.Store {
	tb.Helper()
	again, err := natsstore.Open(tb.Context(), conn, natsstore.ConfigOf(s))
	require.NoError(tb, err)
	tb.Cleanup(again.Close)
	return again
}
