package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootLong = `fanonce looks at and steers what fanonce keeps in Postgres: keys and sagas.

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
		Use: "fanonce", Short: "Look at and steer keys and sagas", Long: rootLong,
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
	root.AddCommand(newConsole(a), newDoctor(a), newKey(a), newKeys(a), newMigrate(a), newSaga(a), newSweep(a))
	root.SetHelpCommand(newHelp(root))
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

// newHelp makes the command help. That of cobra answers an unknown word with the help of all commands, and succeeds.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]...", Short: "Help about any command",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			if cmd, rest, err := root.Find(args); err == nil && len(rest) == 0 {
				for _, below := range cmd.Commands() {
					if below.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(below.Name(), below.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return unknown(cmd, rest[0])
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
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
