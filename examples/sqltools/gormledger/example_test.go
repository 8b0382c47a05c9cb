package gormledger_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fanonce/fanonce/examples/sqltools"
	"github.com/fanonce/fanonce/examples/sqltools/gormledger"
)

// The second request gets the answer of the first one, and there is one row.
func Example() {
	err := sqltools.Demonstrate(context.Background(), func(pool *pgxpool.Pool) (sqltools.Handler, error) {
		base, err := gormledger.Open(stdlib.OpenDBFromPool(pool)) // once, when the service starts
		return gormledger.Ledger{Base: base}.Book, err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 200 {"Entry":1,"Balance":70} replayed: false
	// 200 {"Entry":1,"Balance":70} replayed: true
	// rows: 1
}
