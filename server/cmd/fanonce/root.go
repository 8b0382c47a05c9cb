package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootLong = `fanonce looks at and steers what fanonce keeps in Postgres: keys, sagas and the outbox.

The database is that of --database, or of the variable DATABASE_URL. --json prints one JSON document.
Flags may have one dash or two. "-" as an argument reads that argument from the first line of stdin, so
that a key stays out of the shell's history and of the list of processes.

Exit codes:
  0    done; doctor: no finding
  1    the answer is no: findings, not found, not equal, refused, not confirmed
  2    bad usage, or the database cannot be reached or refuses a statement
  130  interrupted: the last line says what was done; console ends with 0`

func newRoot(a *app) *cobra.Command {
	root := group(&cobra.Command{
		Use: "fanonce", Short: "Look at and steer keys, sagas and the outbox", Long: rootLong,
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
	flags.StringVar(&a.database, "database", "", "address of the database, postgres://…; default $DATABASE_URL")
	flags.StringVar(&a.schema, "schema", "", "Postgres schema of the tables; default: the search_path finds them")
	flags.DurationVar(&a.timeout, "timeout", defaultTimeout, "how long one statement may take")
	flags.BoolVar(&a.json, "json", false, "print JSON, for scripts")
	a.completesFlag(root, "schema", suggestSchemas)
	root.AddCommand(newConsole(a), newDoctor(a), newKey(a), newKeys(a), newMigrate(a), newOutbox(a), newSaga(a), newSweep(a))
	return root
}

// group makes cmd a command that only has others below it. Without one of them it prints its help.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return fmt.Errorf("%s has no command %q: see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return cmd
}

// takes checks the number of arguments. most < 0 means any number.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return fmt.Errorf("got %d arguments: usage is %s", len(args), cmd.UseLine())
		}
		return nil
	}
}

// flagNames returns the names of the flags of all commands.
func flagNames(cmd *cobra.Command) map[string]bool {
	names := map[string]bool{"help": true}
	add := func(f *pflag.Flag) { names[f.Name] = true }
	cmd.Flags().VisitAll(add)
	cmd.PersistentFlags().VisitAll(add)
	for _, child := range cmd.Commands() {
		for name := range flagNames(child) {
			names[name] = true
		}
	}
	return names
}
