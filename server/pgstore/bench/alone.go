package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server/pgstore"
)

const (
	bareCommits = "two bare commits, by pgbench's log"
	pgxCommits  = "two bare commits, by pgx"
)

var alone = bench{
	name: "alone", title: "one caller",
	conditions: "Two bare commits: an insert of the same row and its update, prepared by name on one connection, each by itself; by pgbench -c 1 -l, whose log has the p50 that is judged by, and by pgx. Combining is on, but where it says off.",
	measure:    measureAlone,
}

func measureAlone(ctx context.Context, l *lab, e effort) ([]figure, error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	r, err := match(ctx, e,
		func() (*variant, error) { return storeVariant(ctx, on, ours, 1, pgstore.Config{}) },
		func() (*variant, error) {
			return storeVariant(ctx, on, oursAlone, 1, pgstore.Config{SeparateCommits: true})
		},
		func() (*variant, error) { return loggedVariant(ctx, on, bareCommits, twoCommits) },
		func() (*variant, error) { return bareVariant(ctx, on) },
	)
	if err != nil {
		return nil, err
	}
	busy, err := l.profiler.profile(ctx, e, "alone", func() (*variant, error) { return storeVariant(ctx, on, ours, 1, pgstore.Config{}) })
	if err != nil {
		return nil, err
	}
	return slices.Concat([]figure{
		{Name: "alone", Prototype: "1.14 plain, 1.31 combiner", Measures: []measure{
			r.ratio(ours, bareCommits, (*cell).p50).Measure("p50 by two bare commits of pgbench", times, benchkit.AtMost(1.20)),
			r.ratio(oursAlone, bareCommits, (*cell).p50).Measure("combining off", times, nil),
			r.ratio(ours, pgxCommits, (*cell).p50).Measure("by those of pgx", times, nil),
			r.ratio(oursAlone, pgxCommits, (*cell).p50).Measure("combining off", times, nil),
		}},
	}, busy, []figure{r.describe(ours), r.describe(oursAlone), r.describe(bareCommits), r.describe(pgxCommits)}), nil
}

// bareVariant does with a connection what a key's two steps are at the least.
func bareVariant(ctx context.Context, on *postgres) (*variant, error) {
	db, err := on.database(ctx, migrateStore)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	return &variant{
		name: pgxCommits, server: on,
		turn:  callers(1, func(ctx context.Context) error { return insertAndUpdate(ctx, conn) }),
		check: func(ctx context.Context, operations int) error { return db.holds(ctx, operations, completed) },
		close: func() error { return errors.Join(conn.Close(context.WithoutCancel(ctx)), db.drop()) },
	}, nil
}

func insertAndUpdate(ctx context.Context, conn *pgx.Conn) error {
	key, token := random(), random()
	_, err := conn.Exec(ctx, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, created_at, lease_until, expires_at)
		values ($1, $2, 1, 1, 2, 1, $3, clock_timestamp(), clock_timestamp() + interval '1 minute', clock_timestamp() + interval '1 day')`, key, token, requestHash)
	if err != nil {
		return err
	}
	tag, err := conn.Exec(ctx, `update idempotency set state = 2, status = 200, envelope = $3, replay_until = clock_timestamp() + interval '1 day'
		where key = $1 and token = $2 and fence = 1 and state = 1`, key, token, answer)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%d rows were updated", tag.RowsAffected())
	}
	return err
}
