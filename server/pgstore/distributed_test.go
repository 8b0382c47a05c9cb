package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/servertest"
	"github.com/fanonce/fanonce/server/store"
)

func TestDistributed_store(t *testing.T) {
	t.Parallel()
	databases := newCitusStock(t)
	servertest.TestStore(t, func(tb testing.TB) store.Store { return databases.open(tb, pgstore.Config{}) })
}

func TestDistributed_combiningOff(t *testing.T) {
	t.Parallel()
	databases := newCitusStock(t)
	servertest.TestStore(t, func(tb testing.TB) store.Store { return databases.open(tb, pgstore.Config{SeparateCommits: true}) })
}

func TestDistributed_txStore(t *testing.T) {
	t.Parallel()
	pgkittest.CitusURL(t)
	servertest.TestTxStore(t, func(tb testing.TB) (store.TxStore, servertest.Effects) {
		look := distributedPool(tb)
		exec(tb, look, "create table effect (id uuid not null)")
		exec(tb, look, "select create_distributed_table('effect', 'id', colocate_with => 'idempotency')")
		return openOn(tb, look, pgstore.Config{}), rows{look}
	})
}

func TestDistributed_tables(t *testing.T) {
	t.Parallel()
	look := distributedPool(t)
	require.NoError(t, pgstore.Distribute(t.Context(), look, ""), "a second time")
	require.ErrorIs(t, pgstore.Distribute(t.Context(), pgkittest.NewCitusPool(t), ""), pgstore.ErrSchemaMissing)
	const together = `select count(distinct colocationid) from pg_dist_partition
		where logicalrelid = any (array['idempotency', 'idempotency_answer', 'idempotency_audit']::regclass[])`
	require.Equal(t, 1, queryRow[int](t, look, together))
	_, err := pgstore.New(look, pgstore.Config{})
	require.ErrorIs(t, err, pgstore.ErrNotPrepared)

	cfg := look.Config()
	pgstore.Prepare(cfg)
	for _, distributed := range []bool{false, true} {
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		s, err := pgstore.New(pool, pgstore.Config{Distributed: distributed, AllowNonDurable: true})
		require.NoError(t, err)
		t.Cleanup(s.Close)
		if err := s.Check(t.Context()); distributed {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, pgstore.ErrConfig, "statements that do not suit the tables")
		}
	}
}

// Rows that are there are moved.
func TestDistributed_rows(t *testing.T) {
	t.Parallel()
	look := pgkittest.NewCitusPool(t)
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
	plain := openOn(t, look, pgstore.Config{})
	o := claim(t, plain)
	require.NoError(t, plain.Settle(t.Context(), o, completion))
	plain.Close()
	require.NoError(t, pgstore.Distribute(t.Context(), look, ""))
	require.Equal(t, completion.Answer, read(t, openOn(t, look, pgstore.Config{}), o.ID).Answer)
}

func TestDistribute_refuses(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	require.ErrorIs(t, pgstore.Distribute(t.Context(), look, ""), pgstore.ErrNoCitus)
	require.ErrorIs(t, pgstore.Distribute(t.Context(), look, "no good"), pgstore.ErrConfig)
	require.ErrorIs(t, pgstore.Distribute(t.Context(), nil, ""), pgstore.ErrConfig)
}
