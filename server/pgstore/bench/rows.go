package main

import (
	"context"
	"fmt"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server/pgstore"
)

const (
	fullTable  = "full table"
	emptyTable = "empty table"
)

var rows = bench{
	name: "rows20m", title: "claims into a large table, 64 callers",
	conditions: "The rows are loaded as the store writes them, then indexed, vacuumed and a checkpoint is made: the first write to each page of an index logs it as a whole, as behind every checkpoint.",
	measure:    measureRows,
}

func measureRows(ctx context.Context, l *lab, e effort) ([]figure, error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	r, err := match(ctx, e,
		func() (*variant, error) { return claimsVariant(ctx, on, fullTable, e.bigRows) },
		func() (*variant, error) { return claimsVariant(ctx, on, emptyTable, 0) },
	)
	if err != nil {
		return nil, err
	}
	return []figure{
		{Name: "rows20m", Prototype: "–", Measures: []measure{
			r.ratio(fullTable, emptyTable, (*cell).rate).Measure(fmt.Sprintf("claims with %d rows by those without", e.bigRows), times, benchkit.AtLeast(0.8)),
		}},
		r.describe(fullTable), r.describe(emptyTable),
	}, nil
}

func claimsVariant(ctx context.Context, on *postgres, name string, there int) (*variant, error) {
	s, err := openStore(ctx, on, pgstore.Config{})
	if err != nil {
		return nil, err
	}
	if there > 0 {
		err = s.fill(ctx, there, "1 day")
	}
	if err != nil {
		_ = s.close() // the first error says more
		return nil, err
	}
	v := s.variant(name, callers(64, s.claim))
	v.check = func(ctx context.Context, operations int) error {
		return s.holds(ctx, there+operations, "select count(*) from idempotency")
	}
	return v, nil
}

func (k *keyStore) claim(ctx context.Context) error {
	_, won, err := claim(ctx, k, claimOf(random()))
	if err == nil && !won {
		err = errNotFirst
	}
	return err
}
