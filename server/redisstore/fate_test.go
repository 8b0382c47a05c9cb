package redisstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
	"github.com/fanonce/fanonce/server/store"
)

// A claim that too few replicas confirm is not won: a failover could forget it. Its token finds it later.
func TestStore_unconfirmedClaimIsNotWon(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	s := open(t, redisstore.Config{Replicas: 1, WaitTimeout: 10 * time.Millisecond}, primary.Addr())
	req := request(store.Keyed)
	_, won, err := s.Claim(t.Context(), req)
	require.ErrorIs(t, err, store.ErrFateUnknown)
	require.ErrorIs(t, err, redisstore.ErrUnconfirmed)
	require.False(t, won)
	_, err = s.Read(t.Context(), req.ID)
	require.ErrorIs(t, err, redisstore.ErrUnconfirmed, "an answer must not be replayed that a failover forgets")
	require.NotErrorIs(t, err, store.ErrFateUnknown)
	require.ErrorIs(t, s.Settle(t.Context(), store.Owner{ID: req.ID, Token: req.Token, Fence: 1}, completion), store.ErrFateUnknown)

	redistest.Start(t, "--replicaof", "127.0.0.1", port(primary))
	eventually(t, "a replica confirms the completion", func() bool {
		return s.Settle(t.Context(), store.Owner{ID: req.ID, Token: req.Token, Fence: 1}, completion) == nil
	})
	r, err := s.Read(t.Context(), req.ID)
	require.NoError(t, err)
	require.Equal(t, store.StateCompleted, r.State)
}

// The server gets the claim and does not answer in time.
func TestStore_lostAnswer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, redisstore.Config{}, srv.Addr())
	req := request(store.Keyed)
	claim(t, s, request(store.Keyed)) // a connection is there
	require.NoError(t, srv.Suspend())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err := s.Claim(ctx, req)
	require.ErrorIs(t, err, store.ErrFateUnknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, srv.Resume())
	claim(t, s, req) // whether it arrived or not
}

// A call that waits behind the batches of a silent server has not been sent: nothing happens when its time is up.
func TestStore_withdrawn(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: srv.Addr(), ReadTimeout: time.Minute}) // longer than the test
	t.Cleanup(func() { _ = client.Close() })
	s := openOver(t, client, redisstore.Config{MaxFlushes: 1})
	claim(t, s, request(store.Keyed))
	eventually(t, "the claim's pipeline has ended", func() bool { return redisstore.Pipelines(s) == 0 })
	require.NoError(t, srv.Suspend())

	// Two pipelines are the most that MaxFlushes allows: the second is for calls behind a lost connection.
	var reads sync.WaitGroup
	for n := 1; n <= 2; n++ {
		reads.Go(func() { _, _ = s.Read(t.Context(), newID()) })
		eventually(t, "a pipeline is on its way", func() bool { return redisstore.Pipelines(s) == n })
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req := request(store.Keyed)
	_, _, err := s.Claim(ctx, req)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, store.ErrFateUnknown)
	require.NoError(t, srv.Resume())
	reads.Wait()
	_, err = s.Read(t.Context(), req.ID)
	require.True(t, isNotFound(err), "the call was sent: %v", err)
}

// A server that is not there has executed nothing.
func TestStore_refusedConnection(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, redisstore.Config{}, srv.Addr())
	o := claim(t, s, request(store.Keyed))
	require.NoError(t, srv.Kill())
	eventually(t, "connections are refused", func() bool {
		err := s.Settle(t.Context(), o, completion)
		require.Error(t, err)
		return !isUnknown(err)
	})
	require.NoError(t, srv.Restart())
	r, err := s.Read(t.Context(), o.ID)
	require.NoError(t, err, "the acknowledged claim is gone")
	require.Equal(t, o.Token, r.Token)
	require.NoError(t, s.Settle(t.Context(), o, completion))
}

func TestStore_queueIsBounded(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, redisstore.Config{MaxFlushes: 1, MaxQueued: 4}, srv.Addr())
	claim(t, s, request(store.Keyed))
	require.NoError(t, srv.Suspend())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	full := make(chan error, 32)
	var wg sync.WaitGroup
	for range cap(full) {
		wg.Go(func() {
			_, err := s.Read(ctx, newID())
			full <- err
		})
	}
	wg.Wait()
	close(full)
	refused := 0
	for err := range full {
		if isFull(err) {
			refused++
		}
	}
	require.Positive(t, refused)
	require.NoError(t, srv.Resume())
	eventually(t, "the store goes on", func() bool {
		_, err := s.Read(t.Context(), newID())
		return isNotFound(err)
	})
}

// The server dies with the claim: it may have executed it, and may have written it to its file.
func TestStore_serverDiesWithTheCall(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, redisstore.Config{}, srv.Addr())
	claim(t, s, request(store.Keyed))
	require.NoError(t, srv.Suspend())
	req := request(store.Keyed)
	fate := make(chan error, 1)
	go func() {
		_, _, err := s.Claim(t.Context(), req)
		fate <- err
	}()
	time.Sleep(100 * time.Millisecond) // the claim is on its way
	require.NoError(t, srv.Kill())
	require.ErrorIs(t, <-fate, store.ErrFateUnknown)
	require.NoError(t, srv.Restart())
	eventually(t, "the token gets the key, whether the claim arrived or not", func() bool {
		_, won, err := s.Claim(t.Context(), req)
		return err == nil && won
	})
}
