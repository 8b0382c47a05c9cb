package main

import (
	"context"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server/pgstore"
)

var wal = bench{
	name: "wal", title: "what claim and completion write, 64 callers",
	conditions: "Fill factor 90, as the migration has it. WAL by pg_current_wal_insert_lsn, without the whole pages that follow a checkpoint, since there is none; HOT updates by pg_stat_user_tables.",
	measure:    measureWAL,
}

func measureWAL(ctx context.Context, l *lab, e effort) ([]figure, error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	var hot, hotAlone float64
	r, err := match(ctx, e,
		func() (*variant, error) { return hotVariant(ctx, on, ours, pgstore.Config{}, &hot) },
		func() (*variant, error) {
			return hotVariant(ctx, on, oursAlone, pgstore.Config{SeparateCommits: true}, &hotAlone)
		},
		func() (*variant, error) { return pgbenchVariant(ctx, e, on, base, twoCommits) },
	)
	if err != nil {
		return nil, err
	}
	return []figure{
		{Name: "wal", Prototype: "0.93–1.0; 99.9 %", Measures: []measure{
			r.ratio(ours, base, (*cell).walEach).Measure("WAL by base", times, benchkit.AtMost(1.02)),
			number("HOT updates", hot, percent, benchkit.AtLeast(99)),
		}},
		{Name: "… " + oursAlone, Measures: []measure{
			r.ratio(oursAlone, base, (*cell).walEach).Measure("WAL by base", times, nil),
			number("HOT updates", hotAlone, percent, nil),
		}},
		r.describe(ours), r.describe(base),
	}, nil
}

// hotVariant is the store's, and finds out which part of its updates was HOT.
func hotVariant(ctx context.Context, on *postgres, name string, cfg pgstore.Config, hot *float64) (*variant, error) {
	s, err := openStore(ctx, on, cfg)
	if err != nil {
		return nil, err
	}
	v := s.variant(name, callers(64, s.claimAndComplete))
	v.check = func(ctx context.Context, operations int) error {
		if err := s.check(ctx, operations); err != nil {
			return err
		}
		// Those of the last second may not be counted yet.
		return s.look.QueryRow(ctx, `select coalesce(100 * n_tup_hot_upd::float8 / nullif(n_tup_upd, 0), 0)
			from pg_stat_user_tables where relname = 'idempotency'`).Scan(hot)
	}
	return v, nil
}
