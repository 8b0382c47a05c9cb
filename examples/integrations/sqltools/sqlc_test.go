package sqltools_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/integrations/sqltools"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// The generated code has the queries of query.sql and no others, and was made with the version that doc.go names.
// To make it anew, and to see whether it changes:
//
//	go generate ./... && git diff --exit-code .
func TestSQLC_generatedCodeIsCurrent(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(`cmd/sqlc@(\S+) `).FindStringSubmatch(read(t, "sqlcledger/doc.go"))
	require.Len(t, version, 2)
	queries := strings.Split(read(t, "sqlcledger/query.sql"), "-- name: ")[1:]
	require.NotEmpty(t, queries)
	for _, folder := range []string{"pgxdb", "sqldb"} {
		code := read(t, "sqlcledger/"+folder+"/query.sql.go")
		require.Contains(t, code, "//   sqlc "+version[1]+"\n")
		require.Equal(t, len(queries), strings.Count(code, "`-- name: "))
		for _, q := range queries {
			require.Contains(t, code, "`-- name: "+strings.TrimSuffix(strings.TrimSpace(q), ";")+"\n`")
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// A statement that was prepared on another pool does not work in a run, and nothing is committed. This is why sqlc's
// emit_prepared_queries stays off.
func TestSQLC_preparedStatementOfAnotherPool(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, migrate)
	own := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, own.Close()) })
	prepared, err := own.PrepareContext(t.Context(), "insert into entry (account, cents) values ($1, $2)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, prepared.Close()) })
	url := serve(t, pool, pgstore.Config{}, func(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
		tx, err := pgstore.SQLTx(ctx)
		if err != nil {
			return out, err
		}
		_, err = tx.StmtContext(ctx, prepared).ExecContext(ctx, in.Account, in.Cents)
		require.ErrorContains(t, err, "statement from different database")
		return out, err
	})
	require.Equal(t, 500, send(t, url, "k", sqltools.Booking{Account: "ann", Cents: 5}).status)
	requireLedger(t, pool, "ann", 100)
}
