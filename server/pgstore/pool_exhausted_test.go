package pgstore_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// Handlers hold every connection of the pool. Another request hears 503 with Retry-After
// at the store's deadline, and the readiness check fails. When the handlers end, each key
// has one effect.
func TestOverload_poolExhausted(t *testing.T) {
	t.Parallel()
	const conns = 2
	look := ledger(t)
	s := openOn(t, look, pgstore.Config{}, size(conns))
	begun, end := make(chan struct{}, conns), make(chan struct{})
	c := newCallee(t, s, server.Config{StoreTimeout: 500 * time.Millisecond}, func(*http.Request) {
		begun <- struct{}{}
		<-end
	})
	release := sync.OnceFunc(func() { close(end) })
	t.Cleanup(release)
	first := make(chan reply, conns)
	for _, key := range []string{"order-1", "order-2"} {
		go func() { first <- c.insist(t, key) }()
	}
	for range conns {
		<-begun
	}

	refused := c.post(t.Context(), "order-3")
	require.Equal(t, http.StatusServiceUnavailable, refused.status, refused.body)
	require.NotEmpty(t, refused.header.Get(wire.HeaderRetryAfter))
	require.Contains(t, refused.body, string(wire.NotClaimed))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Check(ctx), context.DeadlineExceeded, "not ready")
	require.Zero(t, queryRow[int](t, look, "select count(*) from effect"))

	release()
	go func() { <-begun }()
	require.Equal(t, http.StatusCreated, c.insist(t, "order-3").status)
	for range conns {
		r := <-first
		require.Equal(t, http.StatusCreated, r.status, r.body)
		require.True(t, strings.HasPrefix(r.body, "once"))
	}
	require.NoError(t, s.Check(t.Context()), "ready again")
	require.Equal(t, conns+1, queryRow[int](t, look, "select count(*) from effect"))
}

// The pool's one connection is held, so the claim cannot be sent. The caller knows that its call had no effect, and the
// same key runs when there is a connection again.
func TestPool_noConnection(t *testing.T) {
	t.Parallel()
	look := ledger(t)
	s, pool := poolOf(t, look, pgstore.Config{}, size(1))
	held, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	release := sync.OnceFunc(held.Release)
	t.Cleanup(release)
	c := newCallee(t, s, server.Config{StoreTimeout: 200 * time.Millisecond}, func(*http.Request) {})
	client, err := retry.New(retry.Config{MaxAttempts: 2, Backoff: retry.Backoff{Base: time.Millisecond, Cap: time.Millisecond}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	call := retry.Call{Method: http.MethodPost, URL: c.url, Key: orderKey(t, "order-42")}

	_, err = client.Send(t.Context(), call)
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, wire.NotClaimed, failed.Code)
	require.Equal(t, retry.Rejected, failed.Outcome)
	require.Equal(t, 2, failed.Attempts, "it is retried")
	require.True(t, failed.Retryable)
	require.Zero(t, queryRow[int](t, look, "select count(*) from idempotency"), "the claim was never sent")
	require.Zero(t, queryRow[int](t, look, "select count(*) from effect"))

	release()
	answer, err := client.Send(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, answer.Status)
	require.False(t, answer.Replayed)
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from effect"))
}

// Nobody listens where the database was. Each call is told that it claimed nothing, and runs once the database is back.
func TestPool_refusedDial(t *testing.T) {
	t.Parallel()
	look := ledger(t)
	gone, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	var away atomic.Bool
	s, pool := poolOf(t, look, pgstore.Config{}, func(cfg *pgxpool.Config) {
		dial := cfg.ConnConfig.DialFunc
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			if away.Load() {
				return new(net.Dialer).DialContext(ctx, "tcp", gone.Addr().String())
			}
			return dial(ctx, network, address)
		}
	})
	c := newCallee(t, s, server.Config{}, func(*http.Request) {})
	require.Equal(t, http.StatusCreated, c.post(t.Context(), "order-1").status)
	away.Store(true)
	pool.Reset()
	for range 3 {
		refused := c.post(t.Context(), "order-2")
		require.Equal(t, http.StatusServiceUnavailable, refused.status)
		require.Equal(t, string(wire.NotClaimed), refused.header.Get(wire.HeaderCode), refused.body)
		require.NotEmpty(t, refused.header.Get(wire.HeaderRetryAfter))
	}
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from idempotency"))
	away.Store(false)
	require.Equal(t, http.StatusCreated, c.post(t.Context(), "order-2").status)
	require.Equal(t, 2, queryRow[int](t, look, "select count(*) from effect"))
}
