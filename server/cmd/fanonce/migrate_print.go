package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgstore"
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
			picked, reader, err := pickOrReader(names)
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

// readerName is the component of the optional indexes. Lists of finished keys and sagas need them, and each new
// key and saga pays for them. So nothing makes them but a person who names them.
const readerName = "reader"

// A readerSet is the optional indexes on the tables of one component.
type readerSet struct {
	component string
	add       func(ctx context.Context, pool *pgxpool.Pool, schema string) error
	indexes   []readerIndex
}

// A readerIndex is one of them, as the package of its tables makes it.
type readerIndex struct{ name, table, columns string }

var readerSets = []readerSet{
	{"keys", pgstore.AddReaderIndexes, []readerIndex{
		{"idempotency_created_at", "idempotency", "(created_at, key)"},
		{"idempotency_children", "idempotency", "(parent) where parent is not null"},
	}},
	{"sagas", pgjournal.AddReaderIndexes, []readerIndex{
		{"saga_created_at", "saga", "(created_at, id)"},
	}},
}

// pickOrReader is chosen, and reports whether the optional indexes are chosen, too.
func pickOrReader(names []string) (picked []component, reader bool, err error) {
	reader = slices.Contains(names, readerName)
	picked, err = pickComponents(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == readerName }))
	if err != nil {
		err = fmt.Errorf("%w, %s", err, readerName)
	}
	return picked, reader, err
}

// readerState is how many of the optional indexes there are, of how many that can be.
func (a *app) readerState(ctx context.Context, pool *pgxpool.Pool) (row migrationOut, sets []readerSet, err error) {
	row = migrationOut{Component: readerName}
	present, err := a.present(ctx, pool)
	if err != nil {
		return row, nil, err
	}
	for _, set := range readerSets {
		if !slices.ContainsFunc(present, func(c component) bool { return c.name == set.component }) {
			continue
		}
		sets = append(sets, set)
		for _, index := range set.indexes {
			valid, err := a.isValidIndex(ctx, pool, index)
			if err != nil {
				return row, nil, err
			}
			row.Latest++
			if valid {
				row.Version++
			}
		}
	}
	switch row.Version {
	case 0:
		row.State = stateMissing
	case row.Latest:
		row.State = stateCurrent
	default:
		row.State = stateOld
	}
	return row, sets, nil
}

func (a *app) isValidIndex(ctx context.Context, pool *pgxpool.Pool, index readerIndex) (valid bool, err error) {
	ctx, cancel := a.bound(ctx)
	defer cancel()
	err = pool.QueryRow(ctx, `select exists (select from pg_index where indexrelid = to_regclass($1) and indisvalid and indisready)`,
		qualify(a.schema, index.name)).Scan(&valid)
	return valid, err
}

// addReader makes the optional indexes on the tables that are there.
func (a *app) addReader(ctx context.Context, pool *pgxpool.Pool, wait time.Duration, dryRun bool) (migrationOut, error) {
	before, sets, err := a.readerState(ctx, pool)
	switch {
	case err != nil:
		return before, err
	case len(sets) == 0:
		return before, fmt.Errorf("--component %s: there are no tables of keys or sagas", readerName)
	case before.Version == before.Latest:
		return before, nil
	case dryRun:
		before.State = "would migrate"
		return before, nil
	}
	for _, set := range sets {
		if err := a.addReaderSet(ctx, pool, set, wait); err != nil {
			return before, err
		}
	}
	after, _, err := a.readerState(ctx, pool)
	after.State = "migrated"
	return after, err
}

func (a *app) addReaderSet(ctx context.Context, pool *pgxpool.Pool, set readerSet, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	line := a.progress("indexes of "+set.component, 0)
	defer line.end()
	if err := set.add(ctx, pool, a.schema); err != nil {
		return fmt.Errorf("%s of %s: an index that was begun is remade by the next migrate up: %w", readerName, set.component, err)
	}
	return nil
}

// readerSteps are the statements of migrate print. No transaction can have them.
func (a *app) readerSteps(down bool) []stepOut {
	var out []stepOut
	for _, set := range readerSets {
		for _, index := range set.indexes {
			sql := fmt.Sprintf("create index concurrently if not exists %s on %s %s;\n", index.name, qualify(a.schema, index.table), index.columns)
			if down {
				sql = fmt.Sprintf("drop index concurrently if exists %s;\n", qualify(a.schema, index.name))
			}
			out = append(out, stepOut{readerName, len(out) + 1, index.name, sql})
		}
	}
	return out
}

func (a *app) readerSQL(down bool) string {
	var text strings.Builder
	fmt.Fprintf(&text, "-- fanonce: %s, outside of a transaction; leave out what you have no tables for\n", readerName)
	for _, s := range a.readerSteps(down) {
		text.WriteString(s.SQL)
	}
	return text.String()
}
