package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes. --help states them.
const (
	exitDone        = 0
	exitNo          = 1   // the command ran, and its answer is no: findings, not found, refused
	exitTrouble     = 2   // bad usage, or the database cannot be reached
	exitInterrupted = 130 // as a shell reports SIGINT
)

// errNo is wrapped by errors of commands that ran and whose answer is no.
var errNo = errors.New("no")

// answeredNo is an error that ends the program with [exitNo]. Its text may be empty: then the output says it all.
type answeredNo struct{ text string }

func (e answeredNo) Error() string { return e.text }

func (e answeredNo) Is(target error) bool { return target == errNo }

func no(format string, args ...any) error { return answeredNo{fmt.Sprintf(format, args...)} }

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the whole program.
func run(args []string, stdin *os.File, stdout, stderr *os.File) int {
	// The second signal ends the process as usual.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, environ: os.LookupEnv}
	unhook := context.AfterFunc(ctx, func() {
		stop()
		a.announce("fanonce: interrupted: ending what runs; interrupt again to stop at once")
	})
	defer unhook() // an end without a signal ends ctx, too
	defer a.close()
	root := newRoot(a)
	root.SetArgs(doubleDashes(root, args))
	err := root.ExecuteContext(ctx)
	return report(ctx, stderr, err)
}

// report prints err in one line, and returns the exit code.
func report(ctx context.Context, stderr io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	code := exitTrouble
	switch {
	case errors.Is(err, errNo):
		code = exitNo
	case ctx.Err() != nil:
		code = exitInterrupted
	}
	if text := oneLine(err.Error()); text != "" {
		_, _ = fmt.Fprintln(stderr, "fanonce: "+text)
	}
	return code
}

// oneLine joins the lines of an error, each once. pgx tries an address with TLS and without it, and tells both failures.
// The first line has words in front.
func oneLine(text string) string {
	var lines []string
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimSpace(line); !slices.ContainsFunc(lines, func(other string) bool { return strings.HasSuffix(other, line) }) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// doubleDashes lets flags be written as Go programs write them: -json is --json. It changes only words that are the
// name of a flag of some command.
func doubleDashes(root *cobra.Command, args []string) []string {
	if len(args) > 0 && strings.HasPrefix(args[0], "__complete") {
		return args // completion gets the words as they are typed
	}
	known := flagNames(root)
	out := make([]string, len(args))
	copy(out, args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && len(name) > 1 && known[name] {
			out[i] = "-" + arg
		}
	}
	return out
}
