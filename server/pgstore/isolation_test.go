package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/servertest"
)

// serializable is the default of the database, not a choice of the store's.
func serializable(cfg *pgxpool.Config) {
	cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
}

// Where SERIALIZABLE is the default, the loser of a claim would get an error in
// place of the record.
func TestStore_serializableDefault(t *testing.T) {
	t.Parallel()
	databases := newStock(t, nil)
	servertest.TestStore(t, func(tb testing.TB) server.Store { return databases.open(tb, pgstore.Config{}, serializable) })
}

func TestTxStore_serializableDefault(t *testing.T) {
	t.Parallel()
	servertest.TestTxStore(t, func(tb testing.TB) (server.TxStore, servertest.Effects) {
		store, look := open(tb, pgstore.Config{}, serializable)
		exec(tb, look, "create table effect (id uuid not null)")
		return store, rows{look}
	})
}
