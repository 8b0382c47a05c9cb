package pgstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// replicated is a primary with a synchronous standby, and a URL that finds the server that accepts writes.
func replicated(t *testing.T) (primary, standby *pgtest.Cluster, url string) {
	t.Helper()
	primary, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, primary.Stop()) })
	_, err = primary.CreateDatabase(t.Context(), "shop")
	require.NoError(t, err)
	standby, err = primary.StartStandby(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Stop()) })
	url, err = pgtest.FailoverURL("shop", primary, standby)
	require.NoError(t, err)
	return primary, standby, url
}

// failover kills the primary and makes the standby the primary.
func failover(t *testing.T, primary, standby *pgtest.Cluster) {
	t.Helper()
	if err := errors.Join(primary.Kill(), standby.Promote(t.Context())); err != nil {
		t.Error(err)
	}
}

// The primary is lost while callers work. Every acknowledged write was also on the standby. So no effect is lost or
// made twice, and every retry gets the answer that was given.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary, standby, url := replicated(t)
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	look, err := pgxpool.NewWithConfig(t.Context(), cfg.Copy())
	require.NoError(t, err)
	t.Cleanup(look.Close)
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
	exec(t, look, "create table effect (key text, id text)")
	store, err := pgstore.Open(t.Context(), cfg, pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	g, err := server.NewGuard(store, server.Unscoped, server.Config{Lease: time.Second})
	require.NoError(t, err)

	charge := func(ctx context.Context, key string) (string, error) {
		task := server.Task{Name: "charge", Scope: "tenant", Effect: server.Transactional, Wait: -1}
		id, _, err := server.Do(ctx, g, task, keyOf(t, key), key, func(ctx context.Context, key string) (string, error) {
			id := rand.Text()
			_, err := pgstore.Tx(ctx).Exec(ctx, "insert into effect values ($1, $2)", key, id)
			return id, err
		})
		return id, err
	}
	insist := func(key string) (string, error) { // as a caller does: again, with the same key
		for {
			id, err := charge(t.Context(), key)
			if err == nil || t.Context().Err() != nil {
				return id, err
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	const keys, callers = 240, 8
	var acknowledged sync.Map
	var count atomic.Int32
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			for i := n; i < keys; i += callers {
				key := fmt.Sprint("order-", i)
				id, err := insist(key)
				if err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
				acknowledged.Store(key, id)
				count.Add(1)
			}
		})
	}
	until(t, "a third is done", func() bool { return count.Load() > keys/3 })
	failover(t, primary, standby)
	all.Wait()
	look.Reset() // its connections are to the lost server

	require.Equal(t, keys, queryRow[int](t, look, "select count(*) from effect"))
	acknowledged.Range(func(key, id any) bool {
		require.Equal(t, id, queryRow[string](t, look, "select id from effect where key = $1", key))
		again, err := insist(key.(string)) // one of the store's may still be, too
		require.NoError(t, err)
		require.Equal(t, id, again)
		return true
	})
}
