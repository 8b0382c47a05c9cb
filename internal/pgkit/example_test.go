package pgkit_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/pgtest"
)

// Counters of many callers are raised in few commits, and each caller gets the
// value of its own.
func ExampleNewBatchKind() {
	ctx := context.Background()
	cluster, err := pgtest.Start(ctx, pgtest.Config{Private: true})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Stop()
	cfg, err := pgxpool.ParseConfig(cluster.URL("postgres"))
	if err != nil {
		log.Fatal(err)
	}
	pgkit.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "create table counter as select name, 0 as value from generate_series(1, 100) name"); err != nil {
		log.Fatal(err)
	}

	writer, err := pgkit.NewWriter(pool, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer writer.Close(ctx)
	combiner, err := pgkit.NewCombiner(writer, pgkit.CombinerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer combiner.Close(ctx)
	raise := pgkit.NewBatchKind(combiner, pgkit.BatchKindConfig[int, int]{
		One: func(name int) pgkit.Statement {
			return pgkit.Statement{SQL: "update counter set value = value + 1 where name = $1 returning value", Args: []any{name}}
		},
		ScanOne: pgx.RowTo[int],
		Many: func(names []int) (pgkit.Statement, func(pgx.CollectableRow) (int, int, error)) {
			// One name twice in a flush would be raised once: these callers have one each.
			const sql = "update counter set value = value + 1 where name = any ($1) returning name, value"
			return pgkit.Statement{SQL: sql, Args: []any{names}}, func(row pgx.CollectableRow) (int, int, error) {
				var name, value int
				err := row.Scan(&name, &value)
				return slices.Index(names, name), value, err
			}
		},
	})

	var wg sync.WaitGroup
	values := make([]int, 100)
	for i := range values {
		wg.Go(func() { values[i], _, _ = raise.Do(ctx, i+1) })
	}
	wg.Wait()
	fmt.Println(slices.Min(values), slices.Max(values))
	// Output: 1 1
}
