package pgstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/servertest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	databases := newStock(t, nil)
	servertest.TestStore(t, func(tb testing.TB) server.Store { return databases.open(tb, pgstore.Config{}) })
}

// Without combining each write is what a lone one is with it, and more of them
// meet in the server.
func TestStore_combiningOff(t *testing.T) {
	t.Parallel()
	databases := newStock(t, nil)
	servertest.TestStore(t, func(tb testing.TB) server.Store {
		store := databases.open(tb, pgstore.Config{Combining: pgstore.CombiningOff})
		require.Zero(tb, store.Queued())
		return store
	})
}

func TestTxStore(t *testing.T) {
	t.Parallel()
	servertest.TestTxStore(t, func(tb testing.TB) (server.TxStore, servertest.Effects) {
		store, look := open(tb, pgstore.Config{})
		exec(tb, look, "create table effect (id uuid not null)")
		return store, rows{look}
	})
}

// rows are effects that a handler writes as it would in production.
type rows struct{ pool *pgxpool.Pool }

func (r rows) Add(ctx context.Context, id server.ID) error {
	_, err := pgstore.Tx(ctx).Exec(ctx, "insert into effect (id) values ($1)", [16]byte(id))
	return err
}

func (r rows) Count(ctx context.Context, id server.ID) (n int, err error) {
	return n, r.pool.QueryRow(ctx, "select count(*) from effect where id = $1", [16]byte(id)).Scan(&n)
}
