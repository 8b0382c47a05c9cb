package natsstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/natsstore"
	"github.com/fanonce/fanonce/server/natsstore/natstest"
)

// The estimate is never ahead of the leader's clock, and late by at most the way of an answer.
func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ahead := 3 * time.Hour
		leader := func() time.Time { return time.Now().Add(ahead) }
		probe := func(context.Context) (time.Time, error) {
			time.Sleep(2 * time.Millisecond) // to the leader
			now := leader()
			time.Sleep(5 * time.Millisecond) // and back
			return now, nil
		}
		now, set := natsstore.NewClock(probe)
		require.NoError(t, set(t.Context()))
		check := func(late time.Duration) {
			t.Helper()
			if got := leader().Sub(now()); got != late {
				t.Fatalf("the estimate is %v behind the leader, want %v", got, late)
			}
		}
		check(5 * time.Millisecond)
		time.Sleep(time.Minute) // the next use renews it
		check(5 * time.Millisecond)
		time.Sleep(time.Second)
		synctest.Wait()

		ahead -= 100 * time.Millisecond // another leader: the clock stands still for a moment
		before := now()
		require.NoError(t, set(t.Context()))
		require.Equal(t, before, now())
		time.Sleep(time.Second)
		check(5 * time.Millisecond)

		synctest.Wait()
		ahead -= time.Hour // a step is followed
		require.NoError(t, set(t.Context()))
		check(5 * time.Millisecond)
		synctest.Wait()
	})
}

// A process whose clock is ahead takes a key over early. The owner finds out, and changes nothing.
func TestSkew(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	s := newStore(t, conn, 1)
	ahead := reopen(t, s, conn)
	r := claimed(t, s, false)
	natsstore.Skew(ahead, 2*time.Hour)
	next, won, err := ahead.TakeOver(t.Context(), request(r.ID), r.Fence)
	require.NoError(t, err)
	require.True(t, won)
	require.True(t, next.MaybeRan)
	require.Error(t, s.Settle(t.Context(), owner(r), done))
	now, err := s.Read(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, next.Token, now.Token)
}
