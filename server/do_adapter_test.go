package server_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// The caller's wish replaces the task's wait, and has the guard's cap.
func TestDo_waitsAsTheCallerWishes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		prefer []string
		wait   time.Duration
		want   time.Duration
	}{
		{"no wish", nil, time.Second, time.Second},
		{"wished", []string{"wait=3"}, time.Second, 3 * time.Second},
		{"wished none", []string{"wait=0"}, time.Second, 0},
		{"clamped", []string{"respond-async, wait=3600"}, time.Second, server.DefaultWaitCap},
		{"not a number", []string{"wait=soon"}, time.Second, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, memstore.New(), server.Config{})
				task := server.Task{Name: "slow", Scope: "acme", Effect: server.Keyed, Wait: tt.wait, Prefer: tt.prefer}
				call := func() error {
					_, _, err := g.Do(t.Context(), task, key(t, "k"), nil, func(context.Context) (server.Response, error) {
						time.Sleep(20 * time.Second)
						return server.Response{Status: http.StatusOK}, nil
					})
					return err
				}
				var first sync.WaitGroup
				first.Go(func() { _ = call() }) // the duplicate's error is the one that counts
				defer first.Wait()
				synctest.Wait()
				start := time.Now()
				require.ErrorIs(t, call(), &server.RefusedError{Code: wire.InProgress})
				require.Equal(t, tt.want, time.Since(start))
			})
		})
	}
}

// An adapter's caller learns what became of the forward call, from the first answer and
// from its repetition.
func TestDo_tellsTheFateOfTheForwardCall(t *testing.T) {
	t.Parallel()
	shared := http.Header{"Content-Type": {"text/plain"}, wire.HeaderForward: {wire.ForwardRan}}
	for _, tt := range []struct {
		name   string
		status int
		ask    bool
		want   string
	}{
		{"asked", http.StatusOK, true, wire.ForwardNeverRan},
		{"not asked", http.StatusOK, false, ""},
		{"refused", http.StatusConflict, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newGuard(t, memstore.New(), server.Config{})
			task := server.Task{Name: "release", Scope: "acme", Effect: server.Keyed, Cancels: key(t, "forward-"+tt.name[:3])}
			for _, again := range []bool{false, true} {
				answer, replayed, err := g.Do(t.Context(), task, key(t, "undo-"+tt.name[:3]), nil, func(ctx context.Context) (server.Response, error) {
					if tt.ask {
						_, err := server.Barrier(ctx)
						require.NoError(t, err)
					}
					return server.Response{Status: tt.status, Header: shared}, nil
				})
				require.NoError(t, err)
				require.Equal(t, again, replayed)
				require.Equal(t, tt.want, answer.Header.Get(wire.HeaderForward))
			}
			require.Equal(t, wire.ForwardRan, shared.Get(wire.HeaderForward), "the function's own header is left alone")
		})
	}
}

// A Transactional task runs without a key in a transaction of its own, each time. Other tasks need a key.
func TestDo_keyless(t *testing.T) {
	t.Parallel()
	s, rows := memstore.New(), new(ledger)
	g := newGuard(t, s, server.Config{})
	task := server.Task{Name: "pay", Scope: "tenant", Effect: server.Transactional, KeyOptional: true, Cancels: key(t, "forward")}
	for _, status := range []int{http.StatusCreated, http.StatusCreated, http.StatusConflict} {
		answer, replayed, err := g.Do(t.Context(), task, childkey.Key{}, nil, func(ctx context.Context) (server.Response, error) {
			_, has := server.InboundKey(ctx)
			require.False(t, has)
			_, err := server.Barrier(ctx)
			require.ErrorIs(t, err, server.ErrNoForwardKey)
			return server.Response{Status: status}, rows.write(ctx)
		})
		require.NoError(t, err)
		require.False(t, replayed)
		require.Empty(t, answer.Header)
	}
	require.Equal(t, 2, rows.count(), "a refusal is rolled back")
	stats, err := s.Stats(t.Context())
	require.NoError(t, err)
	require.Empty(t, stats.ByState, "no record")

	task.KeyOptional = false
	_, _, err = g.Do(t.Context(), task, childkey.Key{}, nil, func(context.Context) (server.Response, error) { panic("ran") })
	require.ErrorIs(t, err, &server.RefusedError{Code: wire.KeyMissing})
	task.KeyOptional, task.Effect = true, server.Keyed
	requireField(t, g.CheckTask(task), "Task.KeyOptional")
}
