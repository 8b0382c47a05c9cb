package demo

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

func databaseNames(t *testing.T, cluster *pgtest.Cluster) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), cluster.URL(""))
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "select datname from pg_database order by datname")
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}
