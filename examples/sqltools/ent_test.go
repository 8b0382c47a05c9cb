package sqltools_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/sqltools"
	"github.com/fanonce/fanonce/examples/sqltools/entledger"
	"github.com/fanonce/fanonce/examples/sqltools/entledger/ent"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// runEnt runs body once under a key, with a joined client.
func runEnt(t *testing.T, pool *pgxpool.Pool, body func(ctx context.Context, db *ent.Client) error) answer {
	t.Helper()
	url := serve(t, pool, pgstore.Config{}, func(ctx context.Context, _ sqltools.Booking) (out sqltools.Receipt, err error) {
		db, err := entledger.Join(ctx)
		if err != nil {
			return out, err
		}
		return out, body(ctx, db)
	})
	return send(t, url, "k", sqltools.Booking{})
}

// Ent makes an update of several statements. The last one is refused, and ent takes back the others. The handler goes on.
func TestEnt_updateOfSeveralStatements(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, migrate)
	got := runEnt(t, pool, func(ctx context.Context, db *ent.Client) error {
		err := db.Account.UpdateOneID("ann").SetCents(7).AddEntryIDs(999).Exec(ctx)
		require.True(t, ent.IsConstraintError(err), "%v", err)
		require.True(t, ent.IsNotFound(db.Account.UpdateOneID("nobody").SetCents(1).Exec(ctx)))
		return db.Entry.Create().SetAccountID("bob").SetCents(2).Exec(ctx)
	})
	require.Equal(t, 200, got.status)
	requireLedger(t, pool, "ann", 100)
	requireLedger(t, pool, "bob", 100, 2)
}

// A transaction of ent's in a run can choose no isolation. It commits nothing, and closing the client closes nothing.
func TestEnt_transaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, migrate)
	got := runEnt(t, pool, func(ctx context.Context, db *ent.Client) error {
		_, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
		require.ErrorContains(t, err, "isolation")
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.Client().Tx(ctx)
		require.ErrorIs(t, err, ent.ErrTxStarted)
		require.NoError(t, tx.Entry.Create().SetAccountID("ann").SetCents(1).Exec(ctx))
		require.NoError(t, tx.Commit())
		require.NoError(t, db.Close())
		require.Equal(t, 1, db.Entry.Query().CountX(ctx))
		return errNo
	})
	require.Equal(t, 500, got.status)
	requireLedger(t, pool, "ann", 100)
}
