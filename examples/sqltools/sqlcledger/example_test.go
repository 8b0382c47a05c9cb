package sqlcledger_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/examples/sqltools"
	"github.com/fanonce/fanonce/examples/sqltools/sqlcledger"
)

// The second request gets the answer of the first one, and there is one row.
func Example() {
	// The same with sqlc over pgx: sqlcledger.BookPgx.
	err := sqltools.Demonstrate(context.Background(), func(*pgxpool.Pool) (sqltools.Handler, error) {
		return sqlcledger.BookSQL, nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 200 {"Entry":1,"Balance":70} replayed: false
	// 200 {"Entry":1,"Balance":70} replayed: true
	// rows: 1
}
