// Command fanonce looks at and steers what the packages of this library keep: keys in Postgres or Redis, and sagas in
// Postgres.
//
//	fanonce migrate up --component keys   makes the tables
//	fanonce doctor                        says what is wrong with the database, and what to type
//	fanonce status                        says what needs a person
//	fanonce keys list                     lists the keys that need a person
//	fanonce key derive order-42 payment charge
//
// DATABASE_URL, --database or the variables of psql name the database. --json is for scripts. Each command's --help has its flags and an
// example, and README.md has a table of the commands.
//
// The command is a thin shell around the packages that own the tables. It has SQL of its own only where it looks at the
// server itself. The doctor reads the names of tables, indexes and rights from the migrations of the packages, so that
// it cannot differ from what these make.
//
// The program shows no request body, no answer and no secret, and it writes no log. It changes nothing without a verb
// that says so. It knows no saga definition and no handler: what needs one is for the service's own program.
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

// answeredNo is an error that ends the program with [exitNo]: the command ran, and its answer is no. Its text may be
// empty: then the output says it all.
type answeredNo string

func (a answeredNo) Error() string { return string(a) }

func no(format string, args ...any) error { return answeredNo(fmt.Sprintf(format, args...)) }

func isNo(err error) bool {
	var answer answeredNo
	return errors.As(err, &answer)
}

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
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return report(ctx, stderr, err, a.json || slices.Contains(args, "--json")) // a flag may have failed before it was read
}

// errorOut is the JSON of an error, on stderr.
type errorOut struct {
	Error    string `json:"error"`
	ExitCode int    `json:"exit_code"`
}

// report prints err in one line, and returns the exit code.
func report(ctx context.Context, stderr io.Writer, err error, asJSON bool) int {
	if err == nil {
		return exitDone
	}
	code := exitTrouble
	switch {
	case isNo(err):
		code = exitNo
	case ctx.Err() != nil:
		code = exitInterrupted
	}
	switch text := oneLine(err.Error()); {
	case text == "":
	case asJSON:
		writeJSONLine(stderr, errorOut{text, code})
	default:
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

const rootLong = `fanonce looks at and steers what fanonce keeps: keys in Postgres or Redis, and sagas in Postgres.

The database is that of --database, or of the variable DATABASE_URL, or of the variables and service files of psql:
PGHOST, PGPORT, PGDATABASE, PGUSER, PGPASSWORD, PGSERVICE and the like. --json prints one JSON document on stdout, and
an error as {"error": …, "exit_code": …} on stderr. "-" as an argument reads that argument from the first line of stdin,
so that a key stays out of the shell's history and of the list of processes.

Exit codes:
  0    done; doctor: no finding; status: nothing needs a person
  1    the answer is no: findings, not found, not equal, ambiguous, refused, not confirmed; status: something needs a person
  2    bad usage, or the database cannot be reached or refuses a statement
  130  interrupted: the last line says what was done; console ends with 0`

func newRoot(a *app) *cobra.Command {
	root := group(&cobra.Command{
		Use: "fanonce", Short: "Look at and steer keys and sagas", Long: rootLong, Version: readBuild().Version,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.check() },
	})
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.database, "database", "", "address of the database: postgres://…, a connection string or a name as for psql, redis://…; default $DATABASE_URL, then PG*")
	flags.StringVar(&a.schema, "schema", "", "Postgres schema of the tables; default: the search_path finds them")
	flags.DurationVar(&a.timeout, "timeout", defaultTimeout, "how long one statement may take")
	flags.BoolVar(&a.json, "json", false, "print JSON, for scripts")
	root.AddCommand(newConsole(a), newDoctor(a), newKey(a), newKeys(a), newMigrate(a), newSaga(a), newStatus(a), newSweep(a), newVersion(a))
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		group(completion)
	}
	return root
}

// group makes cmd a command that only has others below it. Without one of them it prints its help.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknown(cmd, args[0])
	}
	return cmd
}

// unknown is the error of a word that is none of the commands below cmd. It names the command that was probably meant.
func unknown(cmd *cobra.Command, word string) error {
	err := fmt.Errorf("%s has no command %q: see %s --help", cmd.CommandPath(), word, cmd.CommandPath())
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		err = fmt.Errorf("%s has no command %q; did you mean %s?", cmd.CommandPath(), word, strings.Join(near, " or "))
	}
	return err
}

// takes checks the number of arguments. most < 0 means any number.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return fmt.Errorf("the number of arguments is %d: usage is %s", len(args), cmd.UseLine())
		}
		return nil
	}
}
