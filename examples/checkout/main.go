// Checkout is the demo: four services, each with a database of its own, behind a network that
// loses, repeats, cuts and delays messages. The payment service is killed now and then. It
// places orders, and then counts in the ledgers whether each took effect exactly once.
//
//	go run ./examples/checkout
//	go run ./examples/checkout -faults=brutal -seed=7
//	go run ./examples/checkout -unsafe     # the same without keys: double charges
//
// It uses the Postgres of DATABASE_URL, else a private one from the binaries of
// this machine, else memory.
//
// Start reading at internal/checkout: that is the service that fans out. The
// services that it calls are internal/inventory, payment and notification;
// what they promise each other is in the folders that end in api.
//
// It exits with 0 if every accepted checkout took effect once, with 1 if one
// did not, or did twice, and with 2 if it could not tell.
package main

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

const (
	exitOK = iota
	exitBroken
	exitNoVerdict
)

func main() {
	if isPaymentProcess(os.Args) {
		os.Exit(paymentMain(os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the first
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the demo without the process around it: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
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
	}
	return exitOK
}
