package pgstore_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// The standby is promoted and the old primary lives on, with a process that still talks to it. A write that only the
// old primary has is never acknowledged. That holds for a run that commits there. It also holds for the replay of a
// row that became visible there when its wait was canceled. The effect happens once, on the new primary.
func TestFailover_oldPrimaryLives(t *testing.T) {
	t.Parallel()
	primary, standby, _ := replicated(t)
	oldURL, newURL := primary.URL("shop"), standby.URL("shop")
	oldCfg, err := pgxpool.ParseConfig(oldURL)
	require.NoError(t, err)
	localCfg := oldCfg.Copy()
	localCfg.ConnConfig.RuntimeParams["synchronous_commit"] = "local"
	oldLook, err := pgxpool.NewWithConfig(t.Context(), localCfg)
	require.NoError(t, err)
	t.Cleanup(oldLook.Close)
	newLook, err := pgxpool.New(t.Context(), newURL)
	require.NoError(t, err)
	t.Cleanup(newLook.Close)
	migrate, err := pgxpool.NewWithConfig(t.Context(), oldCfg.Copy())
	require.NoError(t, err)
	require.NoError(t, pgstore.Migrate(t.Context(), migrate, ""))
	exec(t, migrate, "create table effect (what text)")
	migrate.Close()

	times := server.Config{Lease: 2 * time.Second, StoreTimeout: time.Second, SettleTimeout: time.Second}
	// A wait for a standby that is gone has no end.
	before := openOn(t, oldLook, pgstore.Config{CloseTimeout: time.Millisecond}, func(p *pgxpool.Config) {
		p.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
		p.MaxConns = 8
	})
	var holding atomic.Bool
	promoted, begun := make(chan struct{}), make(chan struct{})
	old := newCallee(t, before, times, func(*http.Request) {
		if holding.CompareAndSwap(true, false) {
			close(begun)
			<-promoted
		}
	})
	release := sync.OnceFunc(func() { close(promoted) })
	t.Cleanup(release)
	require.Equal(t, http.StatusCreated, old.insist(t, "order-0").status, "both servers have it")
	holding.Store(true)
	caller := make(chan reply, 1)
	go func() { caller <- old.post(t.Context(), "order-1") }()
	<-begun
	require.NoError(t, standby.Promote(t.Context()))
	until(t, "the old primary has no standby", func() bool {
		return queryRow[bool](t, oldLook, "select not exists (select from pg_stat_replication)")
	})
	release()

	refused := func(r reply, why string) {
		t.Helper()
		require.Equal(t, http.StatusServiceUnavailable, r.status, "%s: %s", why, r.body)
		require.NotEmpty(t, r.header.Get(wire.HeaderRetryAfter), why)
	}
	refused(<-caller, "COMMIT waits for ever, its caller does not")
	const done = "select exists (select from idempotency where state = 2 and key = any ($1))"
	inProgress := queryRow[[][16]byte](t, oldLook, "select array_agg(key) from idempotency where state = 1")
	require.Len(t, inProgress, 1)
	require.False(t, queryRow[bool](t, oldLook, done, inProgress))
	exec(t, oldLook, "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
	until(t, "the row is visible on the old primary", func() bool { return queryRow[bool](t, oldLook, done, inProgress) })
	refused(old.post(t.Context(), "order-1"), "a replay would acknowledge what the new primary does not know")
	refused(old.post(t.Context(), "order-2"), "its claim need not be durable there, its COMMIT must")

	after := openOn(t, newLook, pgstore.Config{})
	next := newCallee(t, after, times, func(*http.Request) {})
	require.True(t, next.insist(t, "order-0").replayed)
	final := next.insist(t, "order-1")
	require.Equal(t, http.StatusCreated, final.status, final.body)
	require.False(t, final.replayed, "it ran on the new primary")
	require.Equal(t, http.StatusCreated, next.insist(t, "order-2").status)
	require.Equal(t, 3, queryRow[int](t, newLook, "select count(*) from effect"))
	refused(old.post(t.Context(), "order-1"), "still")
}
