package main

import (
	"context"
	"slices"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server/pgstore"
)

var slow256 = bench{
	name: "slow256", title: "slow disk, 256 callers and 64",
	conditions: "Each flush of the WAL takes 1 ms longer, as on a disk behind a network: a library in front of the server's fdatasync waits so long. The plain insert and update in Go has 32 or 256 connections, whichever it does more with.",
	measure:    measureSlow,
}

func measureSlow(ctx context.Context, l *lab, e effort) ([]figure, error) {
	on, err := l.slowPostgres(ctx)
	if err != nil {
		return nil, err
	}
	open := func() (*variant, error) { return storeVariant(ctx, on, ours, 256, pgstore.Config{}) }
	few := ours + ", 64 callers"
	as32 := e // connections, of which the prototype's base had no more
	as32.connections = []int{32}
	r, err := match(ctx, e, open,
		func() (*variant, error) { return storeVariant(ctx, on, few, 64, pgstore.Config{}) },
		func() (*variant, error) { return articleVariant(ctx, e, on, singleStatements, 256) },
		func() (*variant, error) { return pgbenchVariant(ctx, e, on, base, twoCommits) },
		func() (*variant, error) { return pgbenchVariant(ctx, as32, on, base32, twoCommits) },
	)
	if err != nil {
		return nil, err
	}
	busy, err := l.profiler.profile(ctx, e, "slow256", open)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]figure{
		{Name: "slow256", Prototype: "5.2", Measures: []measure{
			r.ratio(ours, base, (*cell).rate).Measure("rate by base", times, benchkit.AtLeast(5.5)),
		}},
		{Name: "… by base with 32 connections", Measures: []measure{r.ratio(ours, base32, (*cell).rate).Measure("rate", times, nil)}},
		{Name: "… 64 callers", Measures: []measure{
			r.ratio(few, base, (*cell).rate).Measure("rate by base", times, nil),
			r.ratio(few, base, (*cell).perCPU).Measure("by CPU-second", times, nil),
		}},
	}, busy, []figure{
		r.describe(ours), r.describe(few), r.describe(singleStatements.name, base), r.describe(base), r.describe(base32),
	}), nil
}
