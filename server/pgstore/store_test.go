package pgstore_test

import (
	"context"
	"errors"
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

// Break makes a statement of the transaction fail, or its COMMIT, and does not look.
func (r rows) Break(ctx context.Context, failure error) error {
	raise := func(code string) string {
		return "do $$ begin raise exception 'x' using errcode = '" + code + "'; end $$"
	}
	var statement string
	var refused *server.TxError
	switch {
	case errors.Is(failure, server.ErrConflict):
		statement = raise("40001")
	case errors.Is(failure, server.ErrTxLost):
		statement = "select pg_terminate_backend(pg_backend_pid())"
	case errors.Is(failure, servertest.ErrUnavailable):
		statement = raise("53100")
	case errors.As(failure, &refused) && refused.Commit && refused.SQLState == "23505":
		statement = `create temporary table broken (n int unique deferrable initially deferred) on commit drop;
			insert into broken values (1), (1)`
	case errors.As(failure, &refused):
		statement = raise(refused.SQLState)
	default:
		return failure
	}
	_, _ = pgstore.Tx(ctx).Exec(ctx, statement)
	return nil
}
