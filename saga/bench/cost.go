package main

import (
	"context"
	"errors"
	"fmt"
)

func costConditions(e effort) string {
	return fmt.Sprintf("One engine at a time, alone on its server, and one saga after the other. Statements are those of pg_stat_statements, BEGIN and COMMIT"+
		" among them; commits that write are transactions with an ID of their own; WAL is how far the server's log got. Medians of %d rounds of"+
		" %d sagas, divided by their number, and their range. What an engine does on the side is in the round that it falls into.", e.costRounds, e.costRuns)
}

// costGoals are of one saga. Nil is no goal.
type costGoals struct{ statements, transactions, wal *goal }

func measureCosts(ctx context.Context, c *cluster, e effort, contenders []contender) ([]figure, error) {
	if err := c.startCounting(ctx); err != nil {
		return nil, err
	}
	var figures []figure
	for _, contender := range contenders {
		rounds, err := costOf(ctx, c, contender, e)
		if err != nil {
			return nil, err
		}
		goals := contender.costs
		figures = append(figures, figure{Name: contender.name, Measures: []measure{
			spreadOf(rounds, sample.ofStatements).Measure("statements", "", goals.statements),
			spreadOf(rounds, sample.ofTransactions).Measure("commits that write", "", goals.transactions),
			spreadOf(rounds, sample.ofWAL).Measure("WAL", "bytes", goals.wal),
		}})
	}
	return figures, nil
}

// costOf returns what one saga cost, round by round.
func costOf(ctx context.Context, c *cluster, contender contender, e effort) (rounds []sample, err error) {
	running, err := contender.start(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end(ctx, running)) }()
	// Warm: connections are open, statements prepared, pages written once.
	if err := runMany(ctx, running, e.costRuns); err != nil {
		return nil, err
	}
	before, err := c.sample(ctx)
	for err == nil && len(rounds) < e.costRounds {
		var after sample
		if err = runMany(ctx, running, e.costRuns); err == nil {
			after, err = c.sample(ctx)
		}
		rounds = append(rounds, after.since(before, e.costRuns))
		before = after
	}
	return rounds, err
}

func runMany(ctx context.Context, e engine, n int) error {
	for i := range n {
		if err := runOnce(ctx, e, i); err != nil {
			return err
		}
	}
	return nil
}
