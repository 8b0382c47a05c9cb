package browsertest_test

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// databasesOf returns the names of a server's databases, in order.
func databasesOf(ctx context.Context, url string) ([]string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "select datname::text from pg_database order by datname")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
