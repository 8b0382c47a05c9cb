package main

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

const (
	businessAlone   = "business transaction alone"
	transactional   = "Transactional"
	onceInteractive = "Once, interactive"
	onceWithin      = "Once, within a transaction"
	oncePipelined   = "Once, pipelined"
	barrierRow      = "barrier row, as dtm's"
	joinedCallers   = 32
)

var joined = bench{
	name: "joined", title: "with a business transaction, 32 callers and one",
	conditions: "The business is one insert of 100 bytes. Alone it is BEGIN, INSERT, COMMIT, in three round trips; interactive is Store.OnceFunc: BEGIN with the key, INSERT, COMMIT; within a transaction of the caller's it is BEGIN, Once, INSERT, COMMIT; pipelined is Once and INSERT in one round trip. 32 connections.",
	measure:    measureJoined,
}

func measureJoined(ctx context.Context, l *lab, e effort) ([]figure, error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	guarded := func() (*variant, error) { return transactionalVariant(ctx, on, joinedCallers) }
	open := []func() (*variant, error){guarded, func() (*variant, error) { return onceVariant(ctx, on, joinedCallers) }}
	business := join{businessAlone, "", alone3}
	for _, j := range []join{business, {onceWithin, completedOnce, once4}, {oncePipelined, completedOnce, once1}, {barrierRow, "select count(*) from barrier", barrier4}} {
		open = append(open, func() (*variant, error) { return j.variant(ctx, on, joinedCallers) })
	}
	r, err := match(ctx, e, open...)
	if err != nil {
		return nil, err
	}
	busy, err := l.profiler.profile(ctx, e, "joined", guarded)
	if err != nil {
		return nil, err
	}
	one, err := match(ctx, e,
		func() (*variant, error) { return transactionalVariant(ctx, on, 1) },
		func() (*variant, error) { return onceVariant(ctx, on, 1) },
		func() (*variant, error) { return business.variant(ctx, on, 1) },
	)
	if err != nil {
		return nil, err
	}
	p50Of := func(name string) measure {
		return one.ratio(name, businessAlone, (*cell).p50).Measure(name, times, nil)
	}
	goalOf := func(name string, least float64) measure {
		return r.ratio(name, businessAlone, (*cell).rate).Measure(name, times, benchkit.AtLeast(least))
	}
	return slices.Concat([]figure{
		{Name: "joined", Prototype: "two-phase uncombined 0.27; 0.71; 1.02", Measures: []measure{
			goalOf(transactional, 0.60), goalOf(onceInteractive, 0.70), goalOf(oncePipelined, 1.0),
		}},
		r.describe(businessAlone), r.describe(transactional),
	}, busy, []figure{
		r.describe(onceInteractive), r.describe(onceWithin, businessAlone), r.describe(oncePipelined), r.describe(barrierRow, businessAlone),
		{Name: "… p50 of one caller", Measures: []measure{
			p50Of(transactional), p50Of(onceInteractive), one.spread(businessAlone, (*cell).p50).Measure(businessAlone, microseconds, nil),
		}},
	}), nil
}

// businessTables are those of the business, and dtm's.
const businessTables = `create table business (id bigint generated always as identity primary key, payload bytea not null);
	create table barrier (key text not null, branch text not null, op text not null, reason text not null,
		created_at timestamptz not null default now(), primary key (key, branch, op))`

const insertBusiness = "insert into business (payload) values ($1)"

var payload = answer[:100]

func businessDatabase(ctx context.Context, on *postgres) (*database, error) {
	return on.database(ctx, func(ctx context.Context, pool *pgxpool.Pool) error {
		return errors.Join(pgstore.Migrate(ctx, pool, ""), script(businessTables)(ctx, pool))
	})
}

const (
	countBusiness = "select count(*) from business where length(payload) = 100"
	completedOnce = "select count(*) from idempotency where state = 2"
)

// A join is one way to do the business once.
type join struct {
	name string
	keys string // the query that counts the keys; "" where there are none
	do   func(ctx context.Context, pool *pgxpool.Pool) error
}

func (j join) variant(ctx context.Context, on *postgres, n int) (*variant, error) {
	db, err := businessDatabase(ctx, on)
	if err != nil {
		return nil, err
	}
	pool, err := db.pool(ctx, connections)
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	queries := []string{countBusiness}
	if j.keys != "" {
		queries = append(queries, j.keys)
	}
	return &variant{
		name: j.name, server: on,
		turn:  callers(n, func(ctx context.Context) error { return j.do(ctx, pool) }),
		check: func(ctx context.Context, operations int) error { return db.holds(ctx, operations, queries...) },
		close: func() error { pool.Close(); return db.drop() },
	}, nil
}

// transactionalVariant is a guarded task whose handler does the business.
func transactionalVariant(ctx context.Context, on *postgres, n int) (*variant, error) {
	db, err := businessDatabase(ctx, on)
	if err != nil {
		return nil, err
	}
	g, err := openGuard(ctx, db, guardOptions{})
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	once := func(ctx context.Context) error {
		_, _, err := server.Do(ctx, g.guard, task(server.Transactional), newKey(), 1, func(ctx context.Context, in int) (int, error) {
			_, err := pgstore.Tx(ctx).Exec(ctx, insertBusiness, payload)
			return in, err
		})
		return err
	}
	return &variant{
		name: transactional, server: on, turn: callers(n, once),
		check: func(ctx context.Context, operations int) error {
			return db.holds(ctx, operations, countBusiness, completedOnce)
		},
		close: func() error { return errors.Join(g.close(ctx), db.drop()) },
	}, nil
}

// onceVariant does the business in a transaction that the store begins and ends.
func onceVariant(ctx context.Context, on *postgres, n int) (*variant, error) {
	db, err := businessDatabase(ctx, on)
	if err != nil {
		return nil, err
	}
	s, err := storeOn(ctx, db, pgstore.Config{})
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	once := func(ctx context.Context) error {
		first, err := s.OnceFunc(ctx, onceRequest(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insertBusiness, payload)
			return err
		})
		if err == nil && !first {
			err = errNotFirst
		}
		return err
	}
	return &variant{
		name: onceInteractive, server: on, turn: callers(n, once),
		check: func(ctx context.Context, operations int) error {
			return db.holds(ctx, operations, countBusiness, completedOnce)
		},
		close: func() error { s.Close(); return db.drop() },
	}, nil
}

func alone3(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertBusiness, payload)
		return err
	})
}

func once4(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		first, err := pgstore.Once(ctx, tx, onceRequest())
		if err == nil && !first {
			err = errNotFirst
		}
		if err == nil {
			_, err = tx.Exec(ctx, insertBusiness, payload)
		}
		return err
	})
}

func once1(ctx context.Context, pool *pgxpool.Pool) error {
	batch := new(pgx.Batch)
	request := onceRequest()
	if err := request.Queue(batch); err != nil {
		return err
	}
	batch.Queue(insertBusiness, payload)
	return request.BatchError(pool.SendBatch(ctx, batch).Close())
}

func onceRequest() pgstore.OnceRequest {
	return pgstore.OnceRequest{Scope: "bench", Name: "bench", Key: newKey(), Keep: keep}
}

// barrier4 is what dtm does for a branch of a saga: a row that only the first can
// insert, in the business transaction.
func barrier4(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		err := changeOne(ctx, tx, "insert into barrier (key, branch, op, reason) values ($1, '01', 'action', 'action') on conflict do nothing", newKey().String())
		if err == nil {
			_, err = tx.Exec(ctx, insertBusiness, payload)
		}
		return err
	})
}
