// Bench compares package retry with go-retryablehttp and failsafehttp: what
// each adds to a call that succeeds, and what each does when calls fail.
//
//	go run .                 everything, with verdicts; some minutes
//	go run . -run 'B3|B6'    only these
//	go run . -short          everything in about a minute, without verdicts
//	go run . -json           for machines
//
// README.md has the question of each figure and its method. The program exits with 1 if a figure of package
// retry falls short of its goal, and with 2 if something could not be measured.
package main

import (
	"context"
	"os"

	"github.com/fanonce/fanonce/internal/benchkit"
)

func main() {
	benchkit.Main(func(ctx context.Context) int { return program.Run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

var program = benchkit.Program[effort]{Full: full, Brief: brief, Benches: []benchkit.Bench[effort]{
	bench("B1", "What a client adds to a call that succeeds", overheadConditions, measureOverhead),
	bench("B2", "What a child key costs", deriveConditions, measureDerive),
	bench("B3", "What a failing callee suffers, and what its callers get", outageConditions, measureOutages),
	bench("B4", "How three hops multiply retries", hopsConditions, measureHops),
	bench("B5", "What retried answers leave behind", leaksConditions, measureLeaks),
	bench("B6", "What takes effect through a bad network", chaosConditions, measureChaos),
	bench("B9", "What a caller learns when the wait is longer than its time", deadlineConditions, measureDeadline),
	bench("B10", "What a restart costs the callers, and what comes when the service is back", restartConditions, measureRestarts),
}}

func bench(
	name, title string, conditions func(effort) string, measure func(context.Context, effort) ([]figure, error),
) benchkit.Bench[effort] {
	return benchkit.Bench[effort]{
		Name: name, Title: title, Conditions: conditions,
		Measure: func(ctx context.Context, amount effort, _ *benchkit.Machine) ([]figure, error) {
			return measure(ctx, amount)
		},
	}
}
