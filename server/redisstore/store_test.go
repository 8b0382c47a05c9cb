package redisstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
	"github.com/fanonce/fanonce/server/store"
)

// Redis deletes a record by itself an hour after a sweep may have: then nobody sweeps.
func TestStore_endsByItself(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, client := open(t, redisstore.Config{}, srv.Addr()), srv.Client()
	defer client.Close()
	lives := func(o store.Owner) time.Duration {
		d, err := client.PTTL(t.Context(), keyOf(t.Context(), t, client, o.ID)).Result()
		require.NoError(t, err)
		return d
	}
	about := func(what string, got, want time.Duration) {
		t.Helper()
		require.InDelta(t, want.Seconds(), got.Seconds(), 30, what)
	}
	o := claim(t, s, request(store.Keyed))
	about("a run: lease and keep", lives(o), time.Minute+2*time.Hour)
	_, err := s.Renew(t.Context(), []store.Owner{o}, 30*time.Minute)
	require.NoError(t, err)
	about("a renewed run", lives(o), 30*time.Minute+2*time.Hour)
	require.NoError(t, s.Settle(t.Context(), o, completion))
	about("an answer that can be replayed for two hours", lives(o), 3*time.Hour)

	opaque := claim(t, s, request(store.Opaque))
	require.Equal(t, time.Duration(-1), lives(opaque), "the only trace of what an Opaque run may have done")
	_, err = s.Renew(t.Context(), []store.Owner{opaque}, 30*time.Minute)
	require.NoError(t, err)
	require.Equal(t, time.Duration(-1), lives(opaque))
	require.NoError(t, s.Settle(t.Context(), opaque, store.Settlement{State: store.StateUnknown}))
	require.Equal(t, time.Duration(-1), lives(opaque))
}

// Nothing but the audit log is left when all records are swept or forgotten.
func TestStore_indexesAreSwept(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, client := open(t, redisstore.Config{}, srv.Addr()), srv.Client()
	defer client.Close()
	ends := []store.Settlement{
		{State: store.StateCompleted, Answer: store.Answer{Status: 200, Envelope: []byte("x")}, ReplayFor: 1, KeepAnswer: 1, DeadLetter: true},
		{State: store.StateReleased}, {State: store.StateInProgress},
	}
	const n = 300
	for i := range n {
		req := request(store.Keyed)
		req.Keep = time.Microsecond
		require.NoError(t, s.Settle(t.Context(), claim(t, s, req), ends[i%len(ends)]))
	}
	gone := claim(t, s, request(store.Keyed)) // whose record Redis has deleted by itself
	require.NoError(t, client.Del(t.Context(), keyOf(t.Context(), t, client, gone.ID)).Err())
	total := 0
	for range 10 {
		swept, err := s.Sweep(t.Context(), 70)
		require.NoError(t, err)
		require.LessOrEqual(t, swept, 70)
		total += swept
	}
	require.Equal(t, n, total)
	keys, err := client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Empty(t, keys)
}

func TestStore_learnsScriptsAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, client := open(t, redisstore.Config{}, srv.Addr()), srv.Client()
	defer client.Close()
	o := claim(t, s, request(store.Keyed))
	require.NoError(t, client.ScriptFlush(t.Context()).Err())
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if _, _, err := s.Claim(t.Context(), request(store.Keyed)); err != nil {
				t.Errorf("Claim: %v", err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, s.Settle(t.Context(), o, completion))
}

func TestStore_unreadableRecords(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, client := open(t, redisstore.Config{}, srv.Addr()), srv.Client()
	defer client.Close()
	for _, damage := range []func(key string) error{
		func(key string) error { return client.Set(t.Context(), key, "not a record", 0).Err() },
		func(key string) error { return client.SetRange(t.Context(), key, 0, "\x09").Err() }, // of a later version
		func(key string) error {
			client.Del(t.Context(), key)
			return client.HSet(t.Context(), key, "a", "b").Err()
		},
	} {
		req := request(store.Opaque)
		o := claim(t, s, req)
		require.NoError(t, damage(keyOf(t.Context(), t, client, o.ID)))
		_, _, err := s.Claim(t.Context(), req)
		require.ErrorIs(t, err, store.ErrRecordUnreadable)
		_, err = s.Read(t.Context(), o.ID)
		require.ErrorIs(t, err, store.ErrRecordUnreadable)
		require.ErrorIs(t, s.Settle(t.Context(), o, completion), store.ErrRecordUnreadable)
		_, _, err = s.TakeOver(t.Context(), req, 1)
		require.ErrorIs(t, err, store.ErrRecordUnreadable)
	}
}

func TestStore_badArguments(t *testing.T) {
	t.Parallel()
	s := open(t, redisstore.Config{}, redistest.Start(t).Addr())
	ctx := t.Context()
	with := func(change func(r *store.ClaimRequest)) error {
		req := request(store.Keyed)
		change(&req)
		_, _, err := s.Claim(ctx, req)
		_, _, again := s.TakeOver(ctx, req, 1)
		require.ErrorIs(t, again, redisstore.ErrArgument)
		return err
	}
	_, _, quarantine := s.Quarantine(ctx, store.QuarantineRequest{To: store.StateReleased})
	_, renew := s.Renew(ctx, nil, 0)
	_, _, cancel := s.Cancel(ctx, store.CancelRequest{Keep: -1})
	_, sweep := s.Sweep(ctx, 0)
	_, list := s.Reader().List(ctx, store.ListRequest{})
	_, _, resolve := s.Resolve(ctx, store.ResolveRequest{To: store.StateUnknown})
	_, _, deaths := s.Resolve(ctx, store.ResolveRequest{To: store.StateReleased, RecoveryAttempts: -1})
	_, deferral := s.Defer(ctx, store.ID{}, 1, 0)
	_, prune := s.PruneAudit(ctx, 0)
	for i, err := range []error{
		with(func(r *store.ClaimRequest) { r.Effect = 0 }), with(func(r *store.ClaimRequest) { r.Lease = 0 }),
		with(func(r *store.ClaimRequest) { r.Keep = -1 }), with(func(r *store.ClaimRequest) { r.Window = -1 }),
		with(func(r *store.ClaimRequest) { r.Lease = store.MaxRetention + 1 }),
		quarantine, renew, cancel, sweep, list, resolve, deaths, deferral, prune,
		s.Settle(ctx, store.Owner{}, store.Settlement{}), s.Settle(ctx, store.Owner{}, store.Settlement{State: store.StateCancelled}),
	} {
		require.ErrorIs(t, err, redisstore.ErrArgument, i)
		require.ErrorIs(t, err, store.ErrArgument, i)
	}
}

func TestStore_pruneAudit(t *testing.T) {
	t.Parallel()
	s := open(t, redisstore.Config{}, redistest.Start(t).Addr())
	for range 20 {
		o := claim(t, s, request(store.Keyed))
		require.NoError(t, s.Settle(t.Context(), o, completion))
		_, forgotten, err := s.Forget(t.Context(), o.ID, 1, store.Audit{Verb: store.VerbForget, Actor: "ann", Reason: "a test"})
		require.NoError(t, err)
		require.True(t, forgotten)
	}
	n, err := s.PruneAudit(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Zero(t, n)
	eventually(t, "all lines are older than a millisecond", func() bool {
		m, err := s.PruneAudit(t.Context(), time.Millisecond)
		require.NoError(t, err)
		n += m
		return n == 20
	})
}

func TestGuard_refusesTransactionalRoutes(t *testing.T) {
	t.Parallel()
	s := open(t, redisstore.Config{}, redistest.Start(t).Addr())
	guard, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	defer guard.Shutdown(context.Background())
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	_, err = guard.Handler(server.Transactional, nothing)
	require.ErrorContains(t, err, "TxStore")
	for _, effect := range []server.Effect{server.Keyed, server.Opaque} {
		_, err = guard.Handler(effect, nothing)
		require.NoError(t, err)
	}
}

// A sweeper says that an Opaque key needs a person whose owner died, and for which nobody asks again.
func TestGuard_sweepsDeadRuns(t *testing.T) {
	t.Parallel()
	s := open(t, redisstore.Config{}, redistest.Start(t).Addr())
	guard, err := server.NewGuard(s, server.Unscoped, server.Config{Lease: server.MinLease})
	require.NoError(t, err)
	defer guard.Shutdown(context.Background())
	for _, effect := range []store.Effect{store.Keyed, store.Opaque} {
		req := request(effect)
		req.Lease = time.Millisecond
		claim(t, s, req)
	}
	eventually(t, "the sweeper says so", func() bool {
		_, err := guard.Sweep(t.Context())
		require.NoError(t, err)
		a, err := s.Reader().Attention(t.Context())
		require.NoError(t, err)
		return a.Unknown == 1
	})
}

// A Redis that refuses connections claimed nothing, and the caller is told so.
func TestGuard_refusedDial(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := open(t, redisstore.Config{}, redis.Addr())
	guard, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	defer guard.Shutdown(context.Background())
	require.NoError(t, redis.Kill())
	task := server.Task{Name: "task", Scope: "tenant", Effect: server.Keyed}
	eventually(t, "a dial is refused", func() bool { // a call on the lost connection has no such answer
		_, _, err := server.Do(t.Context(), guard, task, childkey.MustParse(rand.Text()), 0, func(context.Context, int) (int, error) { panic("ran") })
		require.Error(t, err)
		return errors.Is(err, &server.RefusedError{Code: wire.NotClaimed})
	})
}

func TestStore_closed(t *testing.T) {
	t.Parallel()
	s := open(t, redisstore.Config{}, redistest.Start(t).Addr())
	o := claim(t, s, request(store.Keyed))
	ended, stop := s.Watch(o.ID, o.Fence)
	defer stop()
	require.NoError(t, s.Close())
	<-ended
	late, _ := s.Watch(o.ID, o.Fence)
	<-late
	_, err := s.Read(t.Context(), o.ID)
	require.ErrorIs(t, err, redisstore.ErrClosed)
	require.NoError(t, s.Close())
}
