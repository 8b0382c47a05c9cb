package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/servertest"
)

// pooled returns a store that reaches its database through a PgBouncer in
// transaction mode, and a pool that looks at the database directly. level is the
// default of the database.
func pooled(tb testing.TB, level string, mode pgx.QueryExecMode) (*pgstore.Store, *pgxpool.Pool) {
	tb.Helper()
	look := pgtest.NewPool(tb, pgstore.Migrate)
	exec(tb, look, "alter database "+look.Config().ConnConfig.Database+" set default_transaction_isolation = '"+level+"'")
	cfg, err := pgxpool.ParseConfig(pgtest.PooledURL(tb, look.Config().ConnString()))
	require.NoError(tb, err)
	cfg.ConnConfig.DefaultQueryExecMode = mode
	store, err := pgstore.Open(tb.Context(), cfg, pgstore.Config{AllowNonDurable: true})
	require.NoError(tb, err)
	tb.Cleanup(store.Close)
	return store, look
}

// The whole law, where no two statements outside a transaction need meet the same
// session.
func TestStore_throughPgBouncer(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			servertest.TestStore(t, func(tb testing.TB) server.Store {
				store, _ := pooled(tb, level, pgx.QueryExecModeExec)
				return store
			})
		})
	}
}

func TestTxStore_throughPgBouncer(t *testing.T) {
	t.Parallel()
	servertest.TestTxStore(t, func(tb testing.TB) (server.TxStore, servertest.Effects) {
		store, look := pooled(tb, "read committed", pgx.QueryExecModeCacheDescribe)
		exec(tb, look, "create table effect (id uuid not null)")
		return store, rows{look}
	})
}

// What pgx does by default needs a session. [pgstore.Prepare] changes that, and
// leaves the modes that do not.
func TestStore_execModesThroughPgBouncer(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			store, _ := pooled(t, "read committed", mode)
			for range 5 {
				everyRequest(t, store)
			}
		})
	}
}

// everyRequest sends what requests send, in any order with those of others.
func everyRequest(t *testing.T, s *pgstore.Store) {
	t.Helper()
	o := claim(t, s)
	lost, err := s.Renew(t.Context(), []server.Owner{o}, completion.ReplayFor)
	require.NoError(t, err)
	require.Empty(t, lost)
	require.NoError(t, s.Settle(t.Context(), o, completion))
	r, won, err := s.Claim(t.Context(), claimOf(o.ID))
	require.NoError(t, err)
	require.False(t, won)
	require.Equal(t, completion.Answer, r.Answer)
	tx, _ := begin(t, s)
	require.NoError(t, tx.Settle(t.Context(), claim(t, s), completion))
}
