package benchkit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes of a benchmark program.
const (
	ExitOK        = iota
	ExitShort     // a figure falls short of its goal, or is missing
	ExitNoVerdict // bad flags, or a measurement failed
)

// Main calls run until it returns, or until a signal ends its ctx, and exits with its code.
func Main(run func(ctx context.Context) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the first
	code := run(ctx)
	stop()
	os.Exit(code)
}

// BadFlags returns the exit code for the error of parsing flags, and prints it to stderr.
func BadFlags(err error, stderr io.Writer) int {
	if errors.Is(err, flag.ErrHelp) {
		return ExitOK
	}
	_, _ = fmt.Fprintln(stderr, err)
	return ExitNoVerdict
}

// Finish writes the report, also one that the error err has cut short, and returns the exit code.
func (r *Report) Finish(err error, stdout, stderr io.Writer, asJSON bool) int {
	err = errors.Join(err, r.Write(stdout, asJSON))
	switch {
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return ExitNoVerdict
	case r.Short():
		return ExitShort
	}
	return ExitOK
}
