// Bench runs the same three steps as a saga of this library, as a workflow of DBOS, and as a
// workflow of go-workflows, in Postgres. It measures the cost of one run for the server, and the
// highest number of runs per second.
//
//	go run .             everything, with verdicts; some minutes
//	go run . -run B1     only that
//	go run . -short      everything in half a minute, without verdicts
//	go run . -json       for machines
//
// README.md has the question of each figure, DESIGN.md its method. The program exits with 1 if a figure of package
// saga falls short of its goal, and with 2 if something could not be measured.
package main

import (
	"context"
	"errors"
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

// A bench answers one question, on a server of its own.
type bench struct {
	name  string // as -run takes it
	title string
	// conditions are what a reader has to know to believe the figures.
	conditions func(effort) string
	settings   map[string]string // of the server, besides those that all have
	measure    func(context.Context, *cluster, effort) ([]figure, error)
}

var benches = []bench{
	{"B1", "What one saga costs Postgres", costConditions, costSettings, measureCosts},
	{"B2", "How many sagas a second", rateConditions, nil, measureRates},
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
	flags.StringVar(&only, "run", "", "comma-separated names of what to run, such as B1 (default: all)")
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
		figures, err := measureOne(ctx, b, amount, &r.Machine)
		if err != nil {
			return r, fmt.Errorf("%s: %w", b.name, err)
		}
		r.Add(section{Name: b.name, Title: b.title, Conditions: b.conditions(amount), Figures: figures})
	}
	return r, nil
}

func measureOne(ctx context.Context, b bench, amount effort, on *machine) (figures []figure, err error) {
	c, err := startCluster(ctx, b.settings)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	on.Postgres = c.version
	figures, err = b.measure(ctx, c, amount)
	if err == nil {
		err = context.Cause(ctx) // figures of runs that were cut short are none
	}
	return figures, err
}
