package main

import (
	"context"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server/pgstore"
)

var redisAlways64 = bench{
	name: "redis-always", title: "beside Redis that keeps what it acknowledged, 64 callers",
	conditions: "SET NX and SET by go-redis, not pipelined, appendfsync always. Each caller has a connection: what Redis reads in one turn of its event loop it flushes at once, so that it gains by each.",
	measure:    measureRedisAlways,
}

func measureRedisAlways(ctx context.Context, l *lab, e effort) ([]figure, error) {
	redis, err := l.redisAlways(ctx)
	if err != nil {
		return nil, err
	}
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	r, err := match(ctx, e,
		func() (*variant, error) { return storeVariant(ctx, on, ours, 64, pgstore.Config{}) },
		func() (*variant, error) { return redisVariant(ctx, redis, alwaysRedis, 64, 64) },
	)
	if err != nil {
		return nil, err
	}
	return []figure{
		{Name: "redis-always", Prototype: "1.9", Measures: []measure{
			r.ratio(ours, alwaysRedis, (*cell).rate).Measure("rate by Redis, appendfsync always", times, benchkit.AtLeast(2)),
		}},
		r.describe(ours), r.describe(alwaysRedis),
	}, nil
}
