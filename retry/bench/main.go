// Bench compares package retry with go-retryablehttp and failsafehttp: what
// each adds to a call that succeeds, and what each does when calls fail.
//
//	go run .                 everything, with verdicts; some minutes
//	go run . -run B3,B6      only these
//	go run . -short          everything in about a minute, without verdicts
//	go run . -json           for machines
//
// README.md has the question of each figure, DESIGN.md its method. The program exits with 1 if a figure of package
// retry falls short of its goal, and with 2 if something could not be measured.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/fanonce/fanonce/internal/benchkit"
)

func main() {
	benchkit.Main(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

// A bench answers one question.
type bench struct {
	name  string // as -run takes it
	title string
	// conditions are what a reader has to know to believe the figures.
	conditions func(effort) string
	measure    func(context.Context, effort) ([]figure, error)
}

var benches = []bench{
	{"B1", "What a client adds to a call that succeeds", overheadConditions, measureOverhead},
	{"B2", "What a child key costs", deriveConditions, measureDerive},
	{"B3", "What a failing callee suffers, and what its callers get", outageConditions, measureOutages},
	{"B4", "How three hops multiply retries", hopsConditions, measureHops},
	{"B5", "What retried answers leave behind", leaksConditions, measureLeaks},
	{"B6", "What takes effect through a bad network", chaosConditions, measureChaos},
	{"B9", "What a caller learns when the wait is longer than its time", deadlineConditions, measureDeadline},
}

// options are the flags, parsed and checked.
type options struct {
	only  []string // names of benches; empty: all
	short bool
	json  bool
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&only, "run", "", "comma-separated names of what to run, such as B3,B6 (default: all)")
	flags.BoolVar(&o.short, "short", false, "do a little of everything, and judge nothing")
	flags.BoolVar(&o.json, "json", false, "print JSON in place of Markdown")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("bench: %q is not a flag", flags.Arg(0))
	}
	if only == "" {
		return o, nil
	}
	o.only = strings.Split(only, ",")
	for _, name := range o.only {
		if !slices.ContainsFunc(benches, func(b bench) bool { return b.name == name }) {
			return o, fmt.Errorf("bench: -run: there is no %q", name)
		}
	}
	return o, nil
}

// run is the program without the process around it: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	if err != nil {
		return benchkit.BadFlags(err, stderr)
	}
	r, err := measureAll(ctx, opts, stderr)
	return r.Finish(err, stdout, stderr, opts.json)
}

func measureAll(ctx context.Context, opts options, progress io.Writer) (report, error) {
	amount := full
	if opts.short {
		amount = brief
	}
	r := report{Machine: benchkit.ThisMachine(), Judged: !opts.short}
	for _, b := range benches {
		if len(opts.only) > 0 && !slices.Contains(opts.only, b.name) {
			continue
		}
		_, _ = fmt.Fprintln(progress, "bench:", b.name, b.title)
		figures, err := b.measure(ctx, amount)
		if err == nil {
			err = context.Cause(ctx) // figures of calls that were cut short are none
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", b.name, err)
		}
		r.Add(section{Name: b.name, Title: b.title, Conditions: b.conditions(amount), Figures: figures})
	}
	return r, nil
}
