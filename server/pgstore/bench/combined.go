package main

import (
	"context"
	"errors"

	"github.com/fanonce/fanonce/server/pgstore"
)

// The names of variants.
const (
	ours        = "pgstore"
	oursAlone   = "pgstore, each write by itself"
	base        = "pgbench, insert and update"
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
			return storeVariant(ctx, on, oursAlone, 64, pgstore.Config{Combining: pgstore.CombiningOff})
		},
		func() (*variant, error) { return pgbenchVariant(ctx, e, on, base, twoCommits) },
		func() (*variant, error) { return pgbenchVariant(ctx, e, on, baseInsert, insertAlone) },
		func() (*variant, error) { return pgbenchVariant(ctx, e, on, baseOne, oneCommit) },
	)
	if err != nil {
		return nil, err
	}
	return []figure{
		{Name: "combined64", Prototype: "3.2–3.4; 4.8–5.5", Measures: []measure{
			r.ratio(ours, base, (*cell).rate).measure("rate by base", times, atLeast(3.5)),
			r.ratio(ours, base, (*cell).perCPU).measure("by CPU-second", times, atLeast(5)),
		}},
		r.describe(ours), r.describe(oursAlone, base), r.describe(base), r.describe(baseInsert, base), r.describe(baseOne, base),
	}, nil
}

var combined256 = bench{
	name: "combined256", title: "claim and completion, 256 callers",
	conditions: "As with 64 callers. Redis: SET NX and SET by go-redis, not pipelined, 32 connections. The batch limit is pgbench with 256 keys inserted by one statement and updated by another.",
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
		func() (*variant, error) { return redisVariant(ctx, redis, memoryRedis, 256) },
		func() (*variant, error) { return pgbenchVariant(ctx, few, on, limit, batches) },
	)
	if err != nil {
		return nil, err
	}
	return []figure{
		{Name: "combined256", Prototype: "5.1; 1.16; 0.55", Measures: []measure{
			r.ratio(ours, base, (*cell).rate).measure("rate by base", times, atLeast(6)),
			r.ratio(ours, memoryRedis, (*cell).rate).measure("by Redis in memory", times, atLeast(1.2)),
			r.ratio(ours, limit, (*cell).rate).measure("by the batch limit", times, atLeast(0.65)),
		}},
		r.describe(ours, base), r.describe(base), r.describe(memoryRedis, base), r.describe(limit, base),
	}, nil
}

// fewConnections are those that pgbench is tried with where each of them carries
// hundreds of rows.
func fewConnections(all []int) []int {
	if len(all) == 1 {
		return []int{4}
	}
	return []int{2, 4, 8}
}

var articles64 = bench{
	name: "articles", title: "beside the algorithms that articles recommend, 64 callers",
	conditions: "Each as it is described, for a fresh key, with pgx and 32 connections; nothing between claim and completion.",
	measure:    measureArticles,
}

func measureArticles(ctx context.Context, l *lab, e effort) ([]figure, error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	make := []func() (*variant, error){
		func() (*variant, error) { return storeVariant(ctx, on, ours, 64, pgstore.Config{}) },
		func() (*variant, error) { return articleVariant(ctx, on, singleStatements, 64) },
	}
	for _, a := range articles {
		make = append(make, func() (*variant, error) { return articleVariant(ctx, on, a, 64) })
	}
	r, err := match(ctx, e, make...)
	if err != nil {
		return nil, err
	}
	best, others := articles[0].name, []figure{r.describe(ours)}
	for _, a := range articles {
		if r.of(a.name, (*cell).rate).median > r.of(best, (*cell).rate).median {
			best = a.name
		}
		others = append(others, r.describe(a.name, ours))
	}
	others = append(others, r.describe(singleStatements.name, ours))
	return append([]figure{{Name: "articles", Prototype: "2.8", Measures: []measure{
		r.ratio(ours, best, (*cell).rate).measure("rate by the best ("+best+")", times, atLeast(3)),
		r.ratio(ours, best, (*cell).p99).measure("p99 by its", times, nil),
	}}}, others...), nil
}

var redisAlways64 = bench{
	name: "redis-always", title: "beside Redis that keeps what it acknowledged, 64 callers",
	conditions: "SET NX and SET by go-redis, not pipelined, 32 connections, appendfsync always.",
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
		func() (*variant, error) { return redisVariant(ctx, redis, alwaysRedis, 64) },
	)
	if err != nil {
		return nil, err
	}
	return []figure{
		{Name: "redis-always", Prototype: "1.9", Measures: []measure{
			r.ratio(ours, alwaysRedis, (*cell).rate).measure("rate by Redis, appendfsync always", times, atLeast(2)),
		}},
		r.describe(ours), r.describe(alwaysRedis),
	}, nil
}

// match makes the variants, and has them contest.
func match(ctx context.Context, e effort, make ...func() (*variant, error)) (results, error) {
	var variants []*variant
	for _, m := range make {
		v, err := m()
		if err != nil {
			return nil, errors.Join(err, closeAll(variants))
		}
		variants = append(variants, v)
	}
	return contest(ctx, e, variants...)
}

// describe is a figure that says how a variant did, without a goal; by another's
// rate if there is one.
func (r results) describe(name string, other ...string) figure {
	f := figure{Name: "… " + name, Measures: []measure{r.of(name, (*cell).rate).measure("rate", perSecond, nil)}}
	for _, o := range other {
		f.Measures = append(f.Measures, r.ratio(name, o, (*cell).rate).measure("by "+o, times, nil))
	}
	if r[name][0].waits != nil {
		f.Measures = append(f.Measures, r.of(name, (*cell).p50).measure("p50", microseconds, nil), r.of(name, (*cell).p99).measure("p99", microseconds, nil))
	}
	f.Measures = append(f.Measures, r.of(name, (*cell).cpuEach).measure("CPU", microseconds, nil))
	if n := r[name][0].connections; n > 0 {
		f.Measures = append(f.Measures, number("connections", float64(n), "", nil))
	}
	if r[name][0].wal > 0 {
		f.Measures = append(f.Measures, r.of(name, (*cell).walEach).measure("WAL", byteCount, nil))
	}
	return f
}
