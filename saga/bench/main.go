// Bench runs the same three steps as a saga of this library, as a workflow of DBOS, and as a
// workflow of go-workflows, in Postgres. It measures the cost of one run for the server, and the
// highest number of runs per second.
//
//	go run .             everything, with verdicts; some minutes
//	go run . -run B1     only that
//	go run . -short      everything in half a minute, without verdicts
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
	bench("B1", "What one saga costs Postgres", costConditions, costSettings, measureCosts),
	bench("B2", "How many sagas a second", rateConditions, nil, measureRates),
}}

// bench measures on a server of its own, with the settings besides those that all have.
func bench(
	name, title string, conditions func(effort) string, settings map[string]string,
	measure func(context.Context, *cluster, effort) ([]figure, error),
) benchkit.Bench[effort] {
	return benchkit.Bench[effort]{
		Name: name, Title: title, Conditions: conditions,
		Measure: func(ctx context.Context, amount effort, on *benchkit.Machine) (figures []figure, err error) {
			c, err := startCluster(ctx, settings)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, c.stop()) }()
			on.Postgres = c.version
			return measure(ctx, c, amount)
		},
	}
}
