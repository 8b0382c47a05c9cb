package main

import (
	"context"
	"slices"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server/pgstore"
)

// The names of variants.
const (
	ours        = "pgstore"
	oursAlone   = "pgstore, each write by itself"
	base        = "pgbench, insert and update"
	base32      = "pgbench, insert and update, 32 connections"
	baseInsert  = "pgbench, insert alone"
	baseOne     = "pgbench, both in one commit"
	limit       = "pgbench, 256 rows a commit"
	memoryRedis = "Redis, in memory"
	alwaysRedis = "Redis, appendfsync always"
)

var combined64 = bench{
	name: "combined64", title: "claim and completion, 64 callers",
	conditions: "Fresh keys, answers of 200 bytes. Pgbench writes the same rows to the same table, at its own best number of connections.",
	measure:    measureCombined64,
}

func measureCombined64(ctx context.Context, l *lab, e effort) ([]figure, error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	r, err := match(ctx, e,
		func() (*variant, error) { return storeVariant(ctx, on, ours, 64, pgstore.Config{}) },
		func() (*variant, error) {
			return storeVariant(ctx, on, oursAlone, 64, pgstore.Config{SeparateCommits: true})
		},
		func() (*variant, error) { return pgbenchVariant(ctx, e, on, base, twoCommits) },
		func() (*variant, error) { return pgbenchVariant(ctx, e, on, baseInsert, insertAlone) },
		func() (*variant, error) { return pgbenchVariant(ctx, e, on, baseOne, oneCommit) },
	)
	if err != nil {
		return nil, err
	}
	counts, err := steps(ctx, on, e, 64)
	if err != nil {
		return nil, err
	}
	busy, err := l.profiler.profile(ctx, e, "combined64", func() (*variant, error) { return storeVariant(ctx, on, ours, 64, pgstore.Config{}) })
	if err != nil {
		return nil, err
	}
	return slices.Concat([]figure{
		{Name: "combined64", Prototype: "3.2–3.4; 4.8–5.5", Measures: []measure{
			r.ratio(ours, base, (*cell).rate).Measure("rate by base", times, benchkit.AtLeast(3.5)),
			r.ratio(ours, base, (*cell).perCPU).Measure("by CPU-second", times, benchkit.AtLeast(5)),
		}},
		counts,
	}, busy, []figure{
		r.describe(ours), r.describe(oursAlone, base), r.describe(base), r.describe(baseInsert, base), r.describe(baseOne, base),
	}), nil
}

var combined256 = bench{
	name: "combined256", title: "claim and completion, 256 callers",
	conditions: "As with 64 callers. Redis: SET NX and SET by go-redis, not pipelined, 32 connections or 256, whichever it does more with. The batch limit is pgbench with 256 keys inserted by one statement and updated by another.",
	measure:    measureCombined256,
}

func measureCombined256(ctx context.Context, l *lab, e effort) ([]figure, error) {
	redis, err := l.redisMemory(ctx)
	if err != nil {
		return nil, err
	}
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	few := e // at that size a connection more only waits
	few.connections = fewConnections(e.connections)
	r, err := match(ctx, e,
		func() (*variant, error) { return storeVariant(ctx, on, ours, 256, pgstore.Config{}) },
		func() (*variant, error) { return pgbenchVariant(ctx, e, on, base, twoCommits) },
		func() (*variant, error) {
			return atItsBest(ctx, e, 256, func(connections int) (*variant, error) {
				return redisVariant(ctx, redis, memoryRedis, 256, connections)
			})
		},
		func() (*variant, error) { return pgbenchVariant(ctx, few, on, limit, batches) },
	)
	if err != nil {
		return nil, err
	}
	counts, err := steps(ctx, on, e, 256)
	if err != nil {
		return nil, err
	}
	busy, err := l.profiler.profile(ctx, e, "combined256", func() (*variant, error) { return storeVariant(ctx, on, ours, 256, pgstore.Config{}) })
	if err != nil {
		return nil, err
	}
	return slices.Concat([]figure{
		{Name: "combined256", Prototype: "5.1; 1.16; 0.55", Measures: []measure{
			r.ratio(ours, base, (*cell).rate).Measure("rate by base", times, benchkit.AtLeast(6)),
			r.ratio(ours, memoryRedis, (*cell).rate).Measure("by Redis in memory", times, benchkit.AtLeast(1.2)),
			r.ratio(ours, limit, (*cell).rate).Measure("by the batch limit", times, benchkit.AtLeast(0.65)),
		}},
		counts,
	}, busy, []figure{r.describe(ours, base), r.describe(base), r.describe(memoryRedis, base), r.describe(limit, base)}), nil
}

// fewConnections are those that pgbench is tried with where each of them carries
// hundreds of rows.
func fewConnections(all []int) []int {
	if len(all) == 1 {
		return []int{4}
	}
	return []int{2, 4, 8}
}
