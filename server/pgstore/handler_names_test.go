package pgstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// namesOf counts the prepared statements of the handler's session that begin
// with this text.
func namesOf(ctx context.Context, t *testing.T, begin string) (n int) {
	t.Helper()
	const count = "select count(*) from pg_prepared_statements where starts_with(statement, $1)"
	require.NoError(t, pgstore.Tx(ctx).QueryRow(ctx, count, pgx.QueryExecModeExec, begin).Scan(&n))
	return n
}

func TestTx_namesStatements(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		mode pgx.QueryExecMode
		want int
	}{
		{"pgx's default", pgx.QueryExecModeCacheStatement, 1},
		{"a mode that was chosen", pgx.QueryExecModeCacheDescribe, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, look := entries(t, func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = tt.mode })
			for id := range 3 {
				_, err := do(t, g, store.Transactional, fmt.Sprint("key-", id), func(ctx context.Context) (int, error) {
					tx := pgstore.Tx(ctx)
					_, err := tx.Exec(ctx, insertEntry, id)
					require.NoError(t, err)
					var what string
					const second = "select what from entry where id = $1"
					require.NoError(t, tx.QueryRow(ctx, second, id).Scan(&what))
					require.Equal(t, "x", what)
					require.Equal(t, tt.want, namesOf(ctx, t, insertEntry), "the first")
					require.Equal(t, tt.want, namesOf(ctx, t, second), "another")
					return 0, nil
				})
				require.NoError(t, err)
			}
			require.Equal(t, 3, queryRow[int](t, look, "select count(*) from entry"))
		})
	}
}

// A handler that writes values into its statements has many texts. The server
// must not keep them all prepared.
func TestTx_namesFewStatements(t *testing.T) {
	t.Parallel()
	g, look := entries(t)
	const texts = 300
	for id := range texts {
		_, err := do(t, g, store.Transactional, fmt.Sprint("key-", id), func(ctx context.Context) (int, error) {
			_, err := pgstore.Tx(ctx).Exec(ctx, fmt.Sprintf("insert into entry values (%d, $1)", id), "x")
			require.NoError(t, err)
			if id == texts-1 {
				names := namesOf(ctx, t, "insert into entry")
				require.Greater(t, names, 100)
				require.LessOrEqual(t, names, 256)
			}
			return 0, err
		})
		require.NoError(t, err)
	}
	require.Equal(t, texts, queryRow[int](t, look, "select count(*) from entry"))
}

// A handler's statement can be the name of a statement that was prepared with
// the connection. Its text can also be wrong: then the handler gets the
// server's error.
func TestTx_namesWhatIsNone(t *testing.T) {
	t.Parallel()
	const named = "add one"
	g, _ := entries(t, func(cfg *pgxpool.Config) {
		cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Prepare(ctx, named, "select $1::int + 1")
			return err
		}
	})
	for run := range 2 {
		n, err := do(t, g, store.Transactional, fmt.Sprint("key-", run), func(ctx context.Context) (n int, err error) {
			require.NoError(t, pgstore.Tx(ctx).QueryRow(ctx, named, 7).Scan(&n), "the first")
			return n, pgstore.Tx(ctx).QueryRow(ctx, named, n).Scan(&n)
		})
		require.NoError(t, err)
		require.Equal(t, 9, n)
		_, err = do(t, g, store.Transactional, fmt.Sprint("wrong-", run), func(ctx context.Context) (int, error) {
			_, err := pgstore.Tx(ctx).Exec(ctx, "insert into nowhere values ($1)", run)
			return 0, err
		})
		require.ErrorContains(t, err, "nowhere")
	}
}
