package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newMigratePrint(a *app) *cobra.Command {
	var names []string
	var from int
	var down, roles bool
	cmd := &cobra.Command{
		Use: "print", Short: "Print the migrations as plain SQL; needs no database", Args: takes(0, 0),
		Long: `Print the migrations as plain SQL, one transaction for each component, for psql or for a migration tool of yours.
The SQL names no schema, unless --schema does. --from N leaves out the steps up to N. --down prints the way back,
down to --from: with 0 it drops the tables with all that is in them. The indexes of reader come without a transaction:
they are made concurrently.`,
		Example: "  fanonce migrate print --component keys | psql \"$DATABASE_URL\"\n  fanonce migrate print --component keys --roles",
		RunE: func(*cobra.Command, []string) error {
			picked, reader, err := chosenOrReader(names)
			switch {
			case err != nil:
				return err
			case len(names) == 0:
				picked = components
			}
			if from != 0 && len(picked) != 1 {
				return errors.New("--from counts the steps of one component: give one --component")
			}
			return a.migratePrint(picked, reader, from, down, roles)
		},
	}
	componentFlag(cmd, &names, "all but reader", readerName)
	cmd.Flags().IntVar(&from, "from", 0, "the version that the tables have; with --down, the version to go back to")
	cmd.Flags().BoolVar(&down, "down", false, "print the way back")
	cmd.Flags().BoolVar(&roles, "roles", false, "also print the database roles: owner, runtime and observer")
	return cmd
}

// stepOut is one migration in the JSON of migrate print.
type stepOut struct {
	Component string `json:"component"`
	Version   int    `json:"version"`
	Name      string `json:"name"`
	SQL       string `json:"sql"`
}

func (a *app) migratePrint(picked []component, reader bool, from int, down, roles bool) error {
	out := []stepOut{}
	var text strings.Builder
	for _, c := range picked {
		steps, err := c.steps()
		if err != nil {
			return err
		}
		if from < 0 || from > len(steps) {
			return fmt.Errorf("--from %d: %s has the versions 0 to %d", from, c.name, len(steps))
		}
		steps = steps[from:]
		if down {
			slices.Reverse(steps)
		}
		fmt.Fprintf(&text, "-- fanonce: %s\nbegin;\n%s", c.name, a.enterSchema(down))
		for _, s := range steps {
			sql := s.sqlUp
			if down {
				sql = s.sqlDn
			}
			out = append(out, stepOut{c.name, s.number, s.name, sql})
			fmt.Fprintf(&text, "\n-- %s\n%s", s.name, withLineEnd(sql))
		}
		if roles && !down {
			out = append(out, stepOut{c.name, len(steps) + from, "roles", c.roles})
			fmt.Fprintf(&text, "\n-- roles\n%s", withLineEnd(c.roles))
		}
		text.WriteString("\ncommit;\n")
	}
	if reader {
		out = append(out, a.readerSteps(down)...)
		text.WriteString(a.readerSQL(down))
	}
	if a.json {
		return writeJSON(a.stdout, out)
	}
	_, err := fmt.Fprint(a.stdout, text.String())
	return err
}

// enterSchema is the SQL that goes to the schema of --schema, whose name was checked.
func (a *app) enterSchema(down bool) string {
	switch {
	case a.schema == "":
		return ""
	case down:
		return fmt.Sprintf("set local search_path to %q;\n", a.schema)
	default:
		return fmt.Sprintf("create schema if not exists %q;\nset local search_path to %q;\n", a.schema, a.schema)
	}
}

func withLineEnd(sql string) string { return strings.TrimRight(sql, "\n") + "\n" }
