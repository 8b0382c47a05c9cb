package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
)

// serializable is the default of the database, not a choice of the store's.
func serializable(cfg *pgxpool.Config) {
	cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
}

// BEGIN says a level only where the session would have another one.
func TestTx_level(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*pgxpool.Config){"": func(*pgxpool.Config) {}, "serializable": serializable} {
		look := ledger(t)
		for _, tt := range []struct{ configured, want pgx.TxIsoLevel }{
			{"", pgx.ReadCommitted},
			{pgx.ReadCommitted, pgx.ReadCommitted},
			{pgx.RepeatableRead, pgx.RepeatableRead},
			{pgx.Serializable, pgx.Serializable},
		} {
			s := openOn(t, look, pgstore.Config{Isolation: tt.configured}, change)
			var together, alone string
			_, ctx := unbegun(t, s)
			require.NoError(t, pgstore.Tx(ctx).QueryRow(ctx, "select current_setting('transaction_isolation')").Scan(&together))
			_, ctx = unbegun(t, s)
			_, err := pgstore.Tx(ctx).Exec(ctx, "select 1") // without arguments: BEGIN goes before
			require.NoError(t, err)
			require.NoError(t, pgstore.Tx(ctx).QueryRow(ctx, "select current_setting('transaction_isolation')").Scan(&alone))
			require.Equal(t, []string{string(tt.want), string(tt.want)}, []string{together, alone}, "default %q, configured %q", name, tt.configured)
		}
	}
}
