package pgstore_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// counter counts round trips: statements sent alone, and batches.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *counter) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = 0
	return n
}

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.add()
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.add()
	return ctx
}
func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestStore_roundTrips(t *testing.T) {
	t.Parallel()
	count := new(counter)
	s, _ := open(t, pgstore.Config{}, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.Tracer = count
		cfg.MaxConns = 1 // a second connection would ask for its isolation level
	})
	ctx := t.Context()
	expect := func(what string, want int) {
		t.Helper()
		if got := count.take(); got != want {
			t.Errorf("%s took %d round trips, want %d", what, got, want)
		}
	}
	count.take()

	first := newClaim()
	o := claimAs(t, s, first)
	expect("a claim", 1)
	_, _, err := s.Claim(ctx, claimOf(o.ID))
	require.NoError(t, err)
	expect("a duplicate in flight", 2)
	lost, err := s.Renew(ctx, []server.Owner{o}, first.Lease)
	require.NoError(t, err)
	require.Empty(t, lost)
	expect("a renewal", 1)
	require.NoError(t, s.Settle(ctx, o, completion))
	expect("a completion", 1)
	r, _, err := s.Claim(ctx, claimOf(o.ID))
	require.NoError(t, err)
	require.Equal(t, completion.Answer, r.Answer)
	expect("a replay", 2)
	_, err = s.Read(ctx, o.ID)
	require.NoError(t, err)
	expect("a read", 1)

	o = claim(t, s)
	require.NoError(t, s.Settle(ctx, o, server.Settlement{State: server.StateReleased}))
	count.take()
	_, won, err := s.TakeOver(ctx, claimOf(o.ID), 1)
	require.NoError(t, err)
	require.True(t, won)
	expect("a take-over", 1)

	o = claim(t, s)
	count.take()
	tx, err := s.Begin(ctx)
	require.NoError(t, err)
	require.NoError(t, tx.Settle(ctx, o, completion))
	expect("a transaction with its settlement", 2)
	require.NoError(t, tx.Rollback(ctx))
	expect("a rollback after the end", 0)
}
