// Bench measures how fast package pgstore is beside what others do: Postgres' own
// pgbench, the algorithms that articles recommend, and Redis.
//
//	go run .                  everything, with verdicts; forty minutes
//	go run . -run 'combined'  the figures whose names match
//	go run . -short           everything in three minutes, without verdicts
//	go run . -json            for machines
//	go run . -profiles f      keeps the profiles that it takes of itself in folder f
//
// README.md has the question and the method of each figure. The program exits with 1 if a
// figure falls short of its goal. It also exits with 1 if a figure could not be measured for want
// of Redis, of pg_stat_statements or of a program that it builds. It exits with 2 if a measurement
// failed. It needs Linux, Go, Postgres with both pgbench and pg_stat_statements, a C compiler and
// redis-server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/fanonce/fanonce/internal/benchkit"
)

func main() {
	benchkit.Main(func(ctx context.Context) int {
		if os.Getenv(roleVariable) == "" {
			return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
		}
		if err := play(ctx, os.Stdin, os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			return benchkit.ExitNoVerdict
		}
		return benchkit.ExitOK
	})
}

// A bench answers one question.
type bench struct {
	name  string // as -run takes it
	title string
	// conditions are what a reader has to know to believe the figures.
	conditions string
	measure    func(context.Context, *lab, effort) ([]figure, error)
}

var benches = []bench{
	combined64, combined256, articles64, redisAlways64, alone, slow256, work20ms, joined, replay, waiting, wal, sizes, rows, ledger,
}

// options are the flags, parsed and checked.
type options struct {
	benchkit.Options

	// profiles is the folder for the profiles of this process; "" means none.
	profiles string
}

func parseOptions(args []string, stderr io.Writer) (o options, err error) {
	var names []string
	for _, b := range benches {
		names = append(names, b.name)
	}
	o.Options, err = benchkit.ParseOptions(args, names, stderr, func(flags *flag.FlagSet) {
		flags.StringVar(&o.profiles, "profiles", "", "a folder, which is there, for the profiles of this process, for go tool pprof (default: nothing keeps them)")
	})
	if err != nil || o.profiles == "" {
		return o, err
	}
	if info, err := os.Stat(o.profiles); err != nil {
		return o, fmt.Errorf("bench: -profiles: %w", err)
	} else if !info.IsDir() {
		return o, fmt.Errorf("bench: -profiles: %q is not a folder", o.profiles)
	}
	return o, nil
}

func (o options) effort() effort {
	if o.Short {
		return brief
	}
	return full
}

// run is the program without the process around it: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	if err != nil {
		return benchkit.BadFlags(err, stderr)
	}
	r, err := measureAll(ctx, opts, opts.effort(), stderr)
	return r.Finish(err, stdout, stderr, opts.JSON)
}

// errTooLong: what was to be brief was not.
var errTooLong = errors.New("bench: -short has a limit, and this machine was slower")

func measureAll(ctx context.Context, opts options, amount effort, progress io.Writer) (r report, err error) {
	if amount.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, amount.limit, fmt.Errorf("%w: %v", errTooLong, amount.limit))
		defer cancel()
	}
	r = report{Machine: benchkit.ThisMachine(), Judged: !opts.Short, Rounds: amount.String()}
	l := lab{log: amount.log, profiler: profiler{folder: opts.profiles}}
	defer func() { err = errors.Join(err, l.close()) }()
	for _, b := range benches {
		if !opts.Only.MatchString(b.name) {
			continue
		}
		_, _ = fmt.Fprintln(progress, "bench:", b.name)
		err := add(ctx, &r, &l, b, amount)
		if errors.Is(err, errNoRedis) || errors.Is(err, errNotBuilt) {
			r.LeftOut = append(r.LeftOut, fmt.Sprintf("%s (%v)", b.name, err))
			_, _ = fmt.Fprintln(progress, "bench: left out:", b.name, err)
			continue
		}
		if err != nil && errors.Is(context.Cause(ctx), errTooLong) {
			err = context.Cause(ctx) // what it was doing then says less
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", b.name, err)
		}
	}
	if err := l.missingCounts(); err != nil {
		r.LeftOut = append(r.LeftOut, fmt.Sprintf("all counts of statements (%v)", err))
		_, _ = fmt.Fprintln(progress, "bench: left out: all counts of statements", err)
	}
	return r, nil
}

// add measures one bench into the report.
func add(ctx context.Context, r *report, l *lab, b bench, amount effort) error {
	before, err := readUsage()
	if err != nil {
		return err
	}
	figures, err := b.measure(ctx, l, amount)
	if err == nil {
		err = context.Cause(ctx) // figures of runs that were cut short are none
	}
	if err != nil {
		return err
	}
	after, err := readUsage()
	if err != nil {
		return err
	}
	r.Add(section{
		Name: b.name, Title: b.title, Conditions: b.conditions, Figures: figures,
		Others: after.since(before).others(), Load: load(),
	})
	l.name(&r.Machine)
	return nil
}
