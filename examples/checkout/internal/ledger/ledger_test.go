package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

func newPostgres(t *testing.T) *ledger.Postgres {
	t.Helper()
	pool := pgtest.NewPool(t, nil)
	_, err := ledger.NewPostgres(t.Context(), pool)
	require.NoError(t, err)
	p, err := ledger.NewPostgres(t.Context(), pool) // as after a restart
	require.NoError(t, err)
	return p
}

// A ledger must take what a guard would keep out: otherwise the demo would
// count nothing but its own constraint.
func TestLedger_takesDuplicates(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		open func(t *testing.T) ledger.Ledger
	}{
		{"postgres", func(t *testing.T) ledger.Ledger { return ledger.Unguarded{Postgres: newPostgres(t)} }},
		{"memory", func(*testing.T) ledger.Ledger { return ledger.UnguardedMemory{Memory: new(ledger.Memory)} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			book := tt.open(t)
			tallies, err := book.Tallies(t.Context())
			require.NoError(t, err)
			require.Empty(t, tallies)
			require.NoError(t, book.Append(t.Context(), ledger.Entry{Order: "b", ID: "1", Cents: 5}))
			require.NoError(t, book.Append(t.Context(), ledger.Entry{Order: "a", ID: "2", Cents: 7}))
			require.NoError(t, book.AppendOnComplete(t.Context(), ledger.Entry{Order: "b", ID: "3", Cents: 5}))
			require.NoError(t, book.AppendAtOnce(t.Context(), ledger.Entry{Order: "b", ID: "3", Cents: 5}))
			tallies, err = book.Tallies(t.Context())
			require.NoError(t, err)
			require.Equal(t, []ledger.Tally{
				{Order: "a", IDs: []string{"2"}, Cents: 7},
				{Order: "b", IDs: []string{"1", "3", "3"}, Cents: 15},
			}, tallies)
		})
	}
}

func TestLedger_outsideARun(t *testing.T) {
	t.Parallel()
	postgres, memory := newPostgres(t), new(ledger.Memory)
	entry := ledger.Entry{Order: "a", ID: "1"}
	require.ErrorIs(t, postgres.Append(t.Context(), entry), pgstore.ErrNoTx)
	require.ErrorIs(t, postgres.AppendOnComplete(t.Context(), entry), server.ErrNoRun)
	require.ErrorIs(t, memory.Append(t.Context(), entry), memstore.ErrNoTx)
	require.ErrorIs(t, memory.AppendOnComplete(t.Context(), entry), server.ErrNoRun)
	for _, book := range []ledger.Ledger{postgres, memory} {
		tallies, err := book.Tallies(t.Context())
		require.NoError(t, err)
		require.Empty(t, tallies)
	}
}
