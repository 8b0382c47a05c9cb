package sdkgrpc_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// The callee's pool has one connection, which is held, so no claim can be sent. Each client knows that its call had no
// effect, and the same key runs when there is a connection again.
func TestBusyStore(t *testing.T) {
	t.Parallel()
	cfg := pgtest.NewPool(t, func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		return pgstore.Migrate(ctx, pool, schema)
	}).Config()
	cfg.MaxConns = 1
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store, err := pgstore.New(pool, pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	held, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	release := sync.OnceFunc(held.Release)
	t.Cleanup(release)

	guard, err := server.NewGuard(store, server.Unscoped, server.Config{StoreTimeout: 200 * time.Millisecond})
	require.NoError(t, err)
	i, err := guardgrpc.New(guard, guardgrpc.Config{Scope: guardgrpc.Unscoped, Methods: map[string]guardgrpc.Method{
		stockpb.Stock_Reserve_FullMethodName: {Effect: server.Keyed},
		stockpb.Stock_Release_FullMethodName: {Effect: server.Keyed},
	}})
	require.NoError(t, err)
	s := new(stock)
	policy := func() retry.Config {
		c := insistent()
		c.MaxAttempts = 2
		return c
	}
	all := doors(t, listenGRPC(t, s, i.ServerOptions()...), listenConnect(t, s, connect.WithInterceptors(i)), policy)
	for n, d := range all {
		_, err := d.call(under(t.Context(), fmt.Sprint("order-", n)), line(d.name))
		var failed *retry.Error
		require.ErrorAs(t, err, &failed, d.name)
		require.Equal(t, wire.NotClaimed, failed.Code, d.name)
		require.Equal(t, retry.Rejected, failed.Outcome, d.name)
		require.True(t, sdk.Resumable(err), d.name)
	}
	s.requireOnce(t, 0)

	release()
	for n, d := range all {
		hold, err := d.call(under(t.Context(), fmt.Sprint("order-", n)), line(d.name))
		require.NoError(t, err, d.name)
		require.Equal(t, d.name, hold.GetSku())
	}
	s.requireOnce(t, len(all))
}
