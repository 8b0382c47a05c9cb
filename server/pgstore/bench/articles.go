package main

import (
	"context"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server/pgstore"
)

var articles64 = bench{
	name: "articles", title: "beside the algorithms that articles recommend, 64 callers",
	conditions: "Each as it is described, for a fresh key, with pgx and with 32 or 64 connections, whichever it does more with; nothing between claim and completion.",
	measure:    measureArticles,
}

func measureArticles(ctx context.Context, l *lab, e effort) ([]figure, error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	open := []func() (*variant, error){
		func() (*variant, error) { return storeVariant(ctx, on, ours, 64, pgstore.Config{}) },
		func() (*variant, error) { return articleVariant(ctx, e, on, singleStatements, 64) },
	}
	for _, a := range articles {
		open = append(open, func() (*variant, error) { return articleVariant(ctx, e, on, a, 64) })
	}
	r, err := match(ctx, e, open...)
	if err != nil {
		return nil, err
	}
	best, others := articles[0].name, []figure{r.describe(ours)}
	for _, a := range articles {
		if r.spread(a.name, (*cell).rate).Median > r.spread(best, (*cell).rate).Median {
			best = a.name
		}
		others = append(others, r.describe(a.name, ours))
	}
	others = append(others, r.describe(singleStatements.name, ours))
	return append([]figure{{Name: "articles", Prototype: "2.8", Measures: []measure{
		r.ratio(ours, best, (*cell).rate).Measure("rate by the best ("+best+")", times, benchkit.AtLeast(3)),
		r.ratio(ours, best, (*cell).p99).Measure("p99 by its", times, nil),
	}}}, others...), nil
}
