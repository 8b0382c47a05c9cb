package sqlcledger_test

import (
	"context"
	"fmt"

	"github.com/fanonce/fanonce/examples/integrations/sqltools"
	"github.com/fanonce/fanonce/examples/integrations/sqltools/sqlcledger"
)

// The second request gets the answer of the first one, and there is one row.
func Example() {
	// The same with sqlc over pgx: sqlcledger.BookPgx.
	err := sqltools.Demonstrate(context.Background(), sqlcledger.BookSQL)
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 200 {"Entry":1,"Balance":70} replayed: false
	// 200 {"Entry":1,"Balance":70} replayed: true
	// rows: 1
}
