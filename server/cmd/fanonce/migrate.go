package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
)

func newMigrate(a *app) *cobra.Command {
	migrate := group(&cobra.Command{
		Use: "migrate", Short: "Make the tables, and bring them to this program's version",
		Long: `Make the tables, and bring them to this program's version.

The components are keys (server/pgstore) and sagas (saga/pgjournal). Migrate before the first new process of a deploy
starts: processes of the previous version go on beside the new tables.

The component reader is the optional indexes on these tables. Lists of keys and sagas of any state need them, and lists
of a key's children: keys list --state completed, keys children, and the console. Each new key and saga then costs a
little more, so reader is made only where --component names it.`,
	})
	migrate.AddCommand(newMigrateUp(a), newMigrateStatus(a), newMigratePrint(a))
	return migrate
}

// componentFlag adds --component. more are names that only this command knows.
func componentFlag(cmd *cobra.Command, names *[]string, otherwise string, more ...string) {
	all := append(componentNames(), more...)
	cmd.Flags().StringSliceVar(names, "component", nil, strings.Join(all, ", ")+": one or more, comma separated; default: "+otherwise)
	_ = cmd.RegisterFlagCompletionFunc("component", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
}

// migrationOut is one component in the JSON of migrate up and migrate status.
type migrationOut struct {
	Component string `json:"component"`
	Version   int    `json:"version"` // 0: there are no tables; of reader: how many of its indexes there are
	Latest    int    `json:"latest"`
	State     string `json:"state"` // missing, old, current, ahead or newer
}

type migrationsOut struct {
	Components []migrationOut `json:"components"`
	DryRun     bool           `json:"dry_run,omitempty"`
}

func (a *app) printMigrations(rows []migrationOut, dryRun bool) error {
	if a.json {
		return writeJSON(a.stdout, migrationsOut{rows, dryRun})
	}
	t := newTable(a.stdout, "COMPONENT", "VERSION", "LATEST", "STATE")
	for _, r := range rows {
		t.row(r.Component, r.Version, r.Latest, r.State)
	}
	return t.flush()
}

func newMigrateStatus(a *app) *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use: "status", Short: "Say which version the tables have; exit code 1 if this program cannot use them", Args: takes(0, 0),
		Long: `Say which version the tables of each component have.

The states are missing, old, current, ahead (newer, and this program can use them) and newer. The exit code is 1 if
a component is old or newer, if one that --component names is missing, or if all are. The version of reader is the
number of its indexes. Where --component does not name it, the exit code does not depend on it.`,
		Example: "  fanonce migrate status --component keys --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			picked, reader, err := pickOrReader(names)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				picked = components
			}
			pool, err := a.pool(cmd.Context())
			if err != nil {
				return err
			}
			return a.migrateStatus(cmd.Context(), pool, picked, reader, len(names) > 0)
		},
	}
	componentFlag(cmd, &names, "all", readerName)
	return cmd
}

func (a *app) migrateStatus(ctx context.Context, pool *pgxpool.Pool, picked []component, reader, named bool) error {
	var rows []migrationOut
	ready, some := true, false
	for _, c := range picked {
		v, err := a.version(ctx, pool, &c)
		if err != nil {
			return err
		}
		rows = append(rows, migrationOut{c.name, v.have, v.want, v.state()})
		some = some || v.usable()
		ready = ready && (v.usable() || v.have == 0 && !named)
	}
	if reader || !named {
		row, sets, err := a.readerState(ctx, pool)
		if err != nil {
			return err
		}
		isThere := row.Version == row.Latest && len(sets) > 0
		rows = append(rows, row)
		some, ready = some || isThere, ready && (isThere || !reader)
	}
	if err := a.printMigrations(rows, false); err != nil {
		return err
	}
	if !ready || !some {
		return no("")
	}
	return nil
}

const defaultMigrationWait = 10 * time.Minute

func newMigrateUp(a *app) *cobra.Command {
	var names []string
	var dryRun, roles bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "up", Short: "Bring the tables to this program's version", Args: takes(0, 0),
		Long: `Bring the tables to this program's version. Each component migrates in one transaction: interrupted, it has changed
nothing. Without --component the components migrate whose tables are there. Where no table is there, name what to make.

A migration waits for a table's lock only briefly, and tries again until --wait is over: requests do not queue
behind it. --schema makes that schema, too, if it is missing.

--roles makes the roles fanonce_owner, fanonce_runtime and fanonce_observer if they are missing, and gives them their rights
on the tables of these components, also where the tables were current. Who runs it must be a superuser, or a member of
fanonce_owner that may create roles.

The indexes of reader are made concurrently: requests go on. Interrupted, such an index stays, invalid: the next
migrate up --component reader makes it anew.`,
		Example: "  fanonce migrate up --component keys,sagas --roles\n  fanonce migrate up --component reader\n  fanonce migrate up --dry-run",
		RunE: func(cmd *cobra.Command, _ []string) error {
			picked, reader, err := pickOrReader(names)
			if err != nil {
				return err
			}
			if wait <= 0 {
				return fmt.Errorf("--wait %v is not positive", wait)
			}
			a.timeout = max(a.timeout, wait) // one statement of a migration may read a large table
			return a.migrateUp(cmd.Context(), picked, reader, roles, wait, dryRun)
		},
	}
	componentFlag(cmd, &names, "those whose tables are there, without reader", readerName)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and change nothing")
	cmd.Flags().BoolVar(&roles, "roles", false, "also make the database roles, and give them their rights")
	cmd.Flags().DurationVar(&wait, "wait", defaultMigrationWait, "how long to wait for locks, and for the migration itself")
	return cmd
}

func (a *app) migrateUp(ctx context.Context, picked []component, reader, roles bool, wait time.Duration, dryRun bool) error {
	pool, err := a.pool(ctx)
	if err != nil {
		return err
	}
	if len(picked) == 0 && !reader {
		if picked, err = a.present(ctx, pool); err != nil {
			return err
		}
		if len(picked) == 0 {
			return errors.New("no tables to migrate: name what to make, as in fanonce migrate up --component keys,sagas")
		}
	}
	var rows []migrationOut
	for _, c := range picked {
		row, err := a.migrateOne(ctx, pool, &c, wait, dryRun)
		if err != nil {
			return undone(err, rows)
		}
		rows = append(rows, row)
		if !roles || dryRun {
			continue
		}
		if err := c.grant(ctx, pool, a.schema); err != nil {
			return undone(fmt.Errorf("%s: the roles: %w", c.name, err), rows)
		}
	}
	if reader {
		row, err := a.addReader(ctx, pool, wait, dryRun)
		if err != nil {
			return undone(err, rows)
		}
		rows = append(rows, row)
	}
	return a.printMigrations(rows, dryRun)
}

func (a *app) migrateOne(ctx context.Context, pool *pgxpool.Pool, c *component, wait time.Duration, dryRun bool) (migrationOut, error) {
	before, err := a.version(ctx, pool, c)
	if err != nil {
		return migrationOut{}, err
	}
	if before.state() == stateNewer {
		return migrationOut{}, no("the tables of %s have version %d, and this program knows %d: use a newer fanonce", c.name, before.have, before.want)
	}
	if !dryRun && before.have < before.want {
		if err := a.migrateTables(ctx, pool, c, wait); err != nil {
			return migrationOut{}, err
		}
	}
	after := before
	if !dryRun {
		if after, err = a.version(ctx, pool, c); err != nil {
			return migrationOut{}, err
		}
	}
	return migrationOut{c.name, after.have, after.want, moveWord(before, dryRun)}, nil
}

// moveWord says what became of a component.
func moveWord(before version, dryRun bool) string {
	switch {
	case before.have >= before.want:
		return before.state()
	case dryRun:
		return "would migrate"
	default:
		return "migrated"
	}
}

func (a *app) migrateTables(ctx context.Context, pool *pgxpool.Pool, c *component, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	line := a.progress("migrating "+c.name, 0)
	defer line.end()
	if err := c.up(ctx, pool, a.schema); err != nil {
		return fmt.Errorf("%s: nothing of it was changed: %w", c.name, err)
	}
	return nil
}

// undone adds which components were migrated before the one that failed.
func undone(err error, rows []migrationOut) error {
	for _, r := range rows {
		if r.State == "migrated" {
			err = fmt.Errorf("%w; %s is at version %d", err, r.Component, r.Latest)
		}
	}
	return err
}
