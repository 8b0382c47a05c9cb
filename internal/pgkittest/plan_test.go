package pgkittest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgtest"
)

func TestGenericPlan(t *testing.T) {
	t.Parallel()
	tx, err := pgtest.NewPool(t, nil).Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "create table things (id integer primary key, name text)")
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "set local enable_seqscan = off")
	require.NoError(t, err)
	for range 2 { // the second is not in the way of the first
		nodes, err := pgkittest.GenericPlan(t.Context(), tx, "select name from things where id = $1 and id <> $2 and id >= $1")
		require.NoError(t, err)
		require.Contains(t, nodes[len(nodes)-1], "$1", "the argument is not known")
	}
	nodes, err := pgkittest.GenericPlan(t.Context(), tx, "select name from things")
	require.NoError(t, err)
	require.Len(t, nodes, 1)
	_, err = pgkittest.GenericPlan(t.Context(), tx, "select name from nothing where id = $1")
	require.ErrorContains(t, err, "nothing")
}
