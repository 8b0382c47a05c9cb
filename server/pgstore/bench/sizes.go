package main

import (
	"context"
	"errors"
	"sync"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server/pgstore"
)

var sizes = bench{
	name: "sizes", title: "what a completed key takes",
	conditions: "Random keys, claimed and completed by 64 callers with answers of 200 bytes. By pg_relation_size; the index of keys as a bulk build leaves it, and as it grew.",
	measure:    measureSizes,
}

func measureSizes(ctx context.Context, l *lab, e effort) (_ []figure, err error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	s, err := openStore(ctx, on, pgstore.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.completeMany(ctx, 64, e.loops); err != nil {
		return nil, err
	}
	var table, grown, expiry, built float64
	err = s.look.QueryRow(ctx, "select pg_relation_size('idempotency')::float8, pg_relation_size('idempotency_pkey')::float8, pg_relation_size('idempotency_expires_at')::float8").
		Scan(&table, &grown, &expiry)
	if err == nil {
		err = script("reindex index idempotency_pkey")(ctx, s.look)
	}
	if err == nil {
		err = s.look.QueryRow(ctx, "select pg_relation_size('idempotency_pkey')::float8").Scan(&built)
	}
	if err != nil {
		return nil, err
	}
	rows := float64(e.loops)
	return []figure{{Name: "sizes", Prototype: "30.5; 407", Measures: []measure{
		number("index of keys", built/rows, byteCount, benchkit.AtMost(32)),
		number("table", table/rows, byteCount, benchkit.AtMost(450)),
		number("index of keys as it grew", grown/rows, byteCount, nil),
		number("index for the sweep", expiry/rows, byteCount, nil),
	}}}, nil
}

// completeMany claims and completes so many keys, and checks that it did.
func (k *keyStore) completeMany(ctx context.Context, callers, keys int) error {
	errs := make([]error, callers)
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			for n := i; n < keys && errs[i] == nil; n += callers {
				errs[i] = k.claimAndComplete(ctx)
			}
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return k.check(ctx, keys)
}
