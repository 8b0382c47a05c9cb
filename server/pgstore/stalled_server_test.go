package pgstore_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// poolOf is a prepared pool of the test's own, and a store on it. The test sees
// the connections, and can take one like a handler.
func poolOf(t *testing.T, look *pgxpool.Pool, cfg pgstore.Config, changes ...func(*pgxpool.Config)) (*pgstore.Store, *pgxpool.Pool) {
	t.Helper()
	poolCfg := look.Config()
	for _, change := range changes {
		change(poolCfg)
	}
	pgstore.Prepare(poolCfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), poolCfg)
	require.NoError(t, err)
	cfg.AllowNonDurable, cfg.CloseTimeout = true, time.Millisecond
	s, err := pgstore.New(pool, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close(); pool.Close() })
	return s, pool
}

// arriving claims fresh keys at a rate, each with the guard's default StoreTimeout.
func arriving(ctx context.Context, s *pgstore.Store, rate int) (wait func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			wg.Go(func() {
				once, cancel := context.WithTimeout(context.WithoutCancel(ctx), server.DefaultStoreTimeout)
				defer cancel()
				_, _, _ = s.Claim(once, newClaim()) // what becomes of it is not the point
			})
		}
	})
	return wg.Wait
}

// A synchronous standby does not answer, and claims go on coming. Four connections wait for it, and the others
// serve statements that need no commit. That also holds after callers have left, and after the first connections were
// given up because no answer came.
func TestStalled_standby(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	s, pool := poolOf(t, look, pgstore.Config{}, size(32), func(p *pgxpool.Config) {
		p.MinConns = 32
		p.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	})
	until(t, "the pool is full", func() bool { return pool.Stat().IdleConns() == 32 })
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Second)
	defer stop()
	wait := arriving(ctx, s, 500)
	// The pool takes all idle connections for a moment when it looks after them. A connection
	// that waits for the standby is in use for seconds: only a number that lasts counts.
	const lasting = 10
	var most int32
	var reads int
	var last []int32
	for ctx.Err() == nil {
		last = append(last, pool.Stat().AcquiredConns())
		if len(last) >= lasting {
			most = max(most, slices.Min(last[len(last)-lasting:]))
		}
		once, cancel := context.WithTimeout(t.Context(), server.DefaultStoreTimeout)
		_, err := pool.Exec(once, "select 1")
		cancel()
		require.NoError(t, err, "a handler's own statement")
		reads++
		time.Sleep(5 * time.Millisecond) // a read now and then, beside the load
	}
	wait()
	t.Logf("at most %d connections in use, %d statements of a handler", most, reads)
	require.LessOrEqual(t, most, int32(5), "connections in flushes, and one that is being closed")
	require.LessOrEqual(t, queryRow[int](t, look, "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"), 6,
		"sessions that the server still works for: those of the first flushes, and of one trial at a time")
}

// Inserts stall for seconds, for example because of a disk or a trigger. Renewals and handlers do not insert, and
// neither waits behind claims.
func TestStalled_inserts(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgstore.Config{})
	s, pool := poolOf(t, look, pgstore.Config{}, size(4)) // pgxpool's default
	o := claim(t, s)
	exec(t, look, `create function stall() returns trigger language plpgsql as $$ begin perform pg_sleep(6); return null; end $$;
		create trigger stall before insert on idempotency for each statement execute function stall()`)
	ctx, stop := context.WithTimeout(t.Context(), 6*time.Second)
	defer stop()
	wait := arriving(ctx, s, 500)
	var slowest atomic.Int64
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond) // a probe now and then, beside the load
		once, cancel := context.WithTimeout(t.Context(), server.DefaultStoreTimeout)
		began := time.Now()
		r, err := s.Renew(once, []store.Owner{o}, time.Minute)
		require.NoError(t, err)
		require.Len(t, r.Renewed, 1)
		_, err = pool.Exec(once, "select 1")
		require.NoError(t, err, "a handler's own statement")
		slowest.Store(max(slowest.Load(), int64(time.Since(began))))
		cancel()
	}
	wait()
	require.Less(t, time.Duration(slowest.Load()), 3*time.Second, "a renewal and a statement of a handler wait for no insert")
	exec(t, look, "drop trigger stall on idempotency")
}
