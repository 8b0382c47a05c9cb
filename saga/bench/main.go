// Bench runs the same three steps as a saga of this library, as a workflow of DBOS, and as a
// workflow of go-workflows, in Postgres. It measures the cost of one run for the server, and the
// highest number of runs per second. With DBOS it compares sagas that wait, too.
//
//	go run .             everything, with verdicts; fifteen minutes
//	go run . -run B1     only that
//	go run . -short      everything in two minutes, without verdicts
//	go run . -json       for machines
//
// README.md has the question of each figure, and its method. The program exits with 1 if a figure of
// package saga falls short of its goal, and with 2 if something could not be measured.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/fanonce/fanonce/internal/benchkit"
)

func main() {
	benchkit.Main(func(ctx context.Context) int { return program.Run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

var program = benchkit.Program[effort]{Full: full, Brief: brief, Benches: []benchkit.Bench[effort]{
	bench("B1", "What one saga costs Postgres", costConditions, contenders, costs),
	bench("B2", "How many sagas a second", rateConditions, contenders, rates),
	bench("B3", "What a saga that sleeps costs, and how many a second", sleepConditions, sleepers, costs, rates),
	bench("B4", "What a saga that awaits a signal costs, and how many a second", signalConditions, signalled, costs, rates),
}}

// A part of a bench measures the contenders on a server of its own.
type part struct {
	settings map[string]string // besides those that all parts have
	measure  func(context.Context, *cluster, effort, []contender) ([]figure, error)
}

var (
	costs = part{costSettings, measureCosts}
	rates = part{nil, measureRates}
)

func bench(name, title string, conditions func(effort) string, of []contender, parts ...part) benchkit.Bench[effort] {
	return benchkit.Bench[effort]{
		Name: name, Title: title, Conditions: conditions,
		Measure: func(ctx context.Context, amount effort, on *benchkit.Machine) ([]figure, error) {
			var figures []figure
			for _, p := range parts {
				more, err := p.run(ctx, amount, on, of)
				if err != nil {
					return nil, err
				}
				figures = append(figures, more...)
			}
			return figures, nil
		},
	}
}

func (p part) run(ctx context.Context, amount effort, on *benchkit.Machine, of []contender) (figures []figure, err error) {
	c, err := startCluster(ctx, p.settings)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	on.Postgres = c.version
	return p.measure(ctx, c, amount, of)
}
