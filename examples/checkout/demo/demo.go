// Package demo is the checkout demo, for commands that differ in the stores that they can open. Start with [Main].
//
// A command is a main that calls Main: examples/checkout without further stores, examples/integrations/stores/checkout with Redis.
// The package is not for other programs: it reads the command line and the environment.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/fanonce/fanonce/examples/checkout/internal/report"
)

const (
	exitOK = iota
	exitBroken
	exitNoVerdict
)

// Main is the main function of a command, and returns its exit code. openers open the stores of further schemes;
// nil means none. The command may start itself again, as the payment service.
func Main(openers map[string]Opener) int {
	if isPaymentProcess(os.Args) {
		return paymentMain(os.Stdin, os.Stdout, os.Stderr)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the first
	return run(ctx, os.Args[1:], openers, os.Stdout, os.Stderr)
}

// run is the demo without the process around it: it returns the exit code.
func run(ctx context.Context, args []string, openers map[string]Opener, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, openers, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitNoVerdict
	}
	result, err := show(ctx, opts, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "checkout:", err)
		return exitNoVerdict
	}
	write := result.WriteText
	if opts.json {
		write = result.WriteJSON
	}
	if err := write(stdout); err != nil {
		fmt.Fprintln(stderr, "checkout:", err)
		return exitNoVerdict
	}
	switch {
	case !result.OK:
		return exitBroken
	case result.Accepted == 0:
		return exitNoVerdict
	case !opts.json && !opts.serve && result.Storage == report.Memory && opts.database == "":
		fmt.Fprintln(stdout, afterMemory)
	case !opts.json && !opts.serve:
		fmt.Fprintln(stdout, "Watch such a run in a browser: go run ./examples/checkout -serve")
	}
	return exitOK
}
