package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/servertest"
	"github.com/fanonce/fanonce/server/store"
)

// The whole conformance suite passes with only the rights of a service, and with a listening connection.
func TestStore(t *testing.T) {
	t.Parallel()
	databases := newStock(t, func(look *pgxpool.Pool) string { return roles(t, look).Runtime })
	servertest.TestStore(t, func(tb testing.TB) store.Store {
		look, asRuntime := databases.lend(tb)
		return withoutTx{openListening(tb, look, asRuntime)}
	})
}

// withoutTx is the store for rules without transactions. TestTxStore runs those with.
type withoutTx struct{ store.WatchStore }

// Without combining each write is sent as a lone write is with combining, and
// more writes meet in the server.
func TestStore_separateCommits(t *testing.T) {
	t.Parallel()
	databases, concerned := newStock(t, nil), pgkittest.NewRules(t, "claim", "settle")
	servertest.TestStore(t, func(tb testing.TB) store.Store {
		concerned.SkipOthers(tb)
		s := databases.open(tb, pgstore.Config{SeparateCommits: true})
		require.Zero(tb, s.Queued())
		return withoutTx{s}
	})
}

// The rules of transactions pass with only the rights of a service. Its sessions have the default SERIALIZABLE, and the
// store takes READ COMMITTED all the same: otherwise the loser of a claim would get an error instead of the record.
func TestTxStore(t *testing.T) {
	t.Parallel()
	databases := newEffectsStock(t, func(look *pgxpool.Pool) string { return roles(t, look).Runtime })
	servertest.TestTxStore(t, func(tb testing.TB) (store.TxStore, servertest.Effects) {
		look, asRuntime := databases.lend(tb)
		return openOn(tb, look, pgstore.Config{}, asRuntime, serializable), rows{look}
	})
}

// rows are effects that a handler writes as it would in production.
type rows struct{ pool *pgxpool.Pool }

func (r rows) Add(ctx context.Context, id store.ID) error {
	const insert = "insert into effect (id) values ($1)"
	_, err := pgstore.Tx(ctx).Exec(ctx, insert, [16]byte(id))
	return err
}

func (r rows) Count(ctx context.Context, id store.ID) (n int, err error) {
	return n, r.pool.QueryRow(ctx, "select count(*) from effect where id = $1", [16]byte(id)).Scan(&n)
}

// Break makes a statement of the transaction fail, or its COMMIT, and ignores the error.
func (r rows) Break(ctx context.Context, failure error) error {
	raise := func(code string) string {
		return "do $$ begin raise exception 'x' using errcode = '" + code + "'; end $$"
	}
	var statement string
	var refused *store.TxError
	switch {
	case errors.Is(failure, store.ErrConflict):
		statement = raise("40001")
	case errors.Is(failure, store.ErrTxLost):
		statement = "select pg_terminate_backend(pg_backend_pid())"
	case errors.Is(failure, store.ErrTxAbandoned): // pgx does the same when the ctx of a statement ends
		statement = "select 1"
		if err := pgstore.Tx(ctx).Conn().PgConn().Conn().SetDeadline(time.Unix(1, 0)); err != nil {
			return err
		}
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
