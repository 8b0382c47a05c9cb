package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/saga/journal"
)

// The statuses of a database, as output has them.
const (
	statusCalm       = "calm" // it was read, and nothing needs a person
	statusNeeds      = "needs a person"
	statusUnreadable = "unreadable" // nobody knows whether something needs a person
)

// statusRow is one database in the JSON of status. A number that is not known, or of tables that are not there, is missing.
type statusRow struct {
	Store       string `json:"store"`
	Status      string `json:"status"` // calm, needs a person, unreadable
	Unknown     *int64 `json:"unknown,omitempty"`
	Quarantined *int64 `json:"quarantined,omitempty"`
	DeadLetters *int64 `json:"dead_letters,omitempty"`
	StuckSagas  *int64 `json:"stuck_sagas,omitempty"`
	// The ages of the oldest key and saga of these are missing where there is none, or none is known.
	OldestKeySeconds  *int64 `json:"oldest_key_seconds,omitempty"`
	OldestSagaSeconds *int64 `json:"oldest_saga_seconds,omitempty"`
	Error             string `json:"error,omitempty"`

	needs bool
}

// statusOut is the JSON of status.
type statusOut struct {
	NeedsPerson bool        `json:"needs_person"`
	Unreadable  int         `json:"unreadable"` // how many databases could not be read, or not all of their tables
	Stores      []statusRow `json:"stores"`
}

func newStatus(a *app) *cobra.Command {
	var stores []string
	cmd := &cobra.Command{
		Use: "status", Short: "Say what needs a person, over one database or several", Args: takes(0, 0),
		Long: `Say what needs a person: unknown and quarantined keys, dead letters, and stuck sagas. It only reads: the rights of
fanonce_observer are enough.

--store NAME=postgres://… or NAME=redis://… names a database; repeat it for several. NAME=env:VARIABLE takes the address
from a variable. Without --store the database is that of all commands.

The exit code is 1 if something needs a person, in whichever database. It is 2 if nothing is known to, and a database
could not be read, or has no tables of keys or sagas.`,
		Example: "  fanonce status\n  fanonce status --store orders=env:ORDERS_URL --store payments=service=payments --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			sources, err := a.sources(stores)
			if err != nil {
				return err
			}
			return a.status(cmd.Context(), sources)
		},
	}
	cmd.Flags().StringArrayVar(&stores, "store", nil, "a database, as NAME=postgres://…, NAME=redis://… or NAME=env:VARIABLE; repeat it for several")
	return cmd
}

// status looks at all databases at once: one that does not answer takes no time from the others.
func (a *app) status(ctx context.Context, sources []source) error {
	out := statusOut{Stores: make([]statusRow, len(sources))}
	var all sync.WaitGroup
	for i, src := range sources {
		all.Go(func() { out.Stores[i] = a.look(ctx, src) })
	}
	all.Wait()
	for _, row := range out.Stores {
		out.NeedsPerson = out.NeedsPerson || row.needs
		if row.Error != "" {
			out.Unreadable++
		}
	}
	if ctx.Err() != nil {
		return errors.New("interrupted: nothing was changed")
	}
	if err := a.printStatus(&out); err != nil {
		return err
	}
	text := ""
	if out.Unreadable > 0 {
		text = fmt.Sprintf("%d of %s could not be read", out.Unreadable, count(len(sources), "database"))
	}
	switch {
	case out.NeedsPerson:
		return no("%s", text)
	case text != "":
		return errors.New(text)
	}
	return nil
}

// look reads one database.
func (a *app) look(ctx context.Context, src source) statusRow {
	row := statusRow{Store: src.name, Status: statusCalm}
	if err := a.lookInto(ctx, src, &row); err != nil {
		row.Status, row.Error = statusUnreadable, oneLine(err.Error())
	}
	row.needs = slices.ContainsFunc([]*int64{row.Unknown, row.Quarantined, row.DeadLetters, row.StuckSagas}, isSome)
	if row.needs {
		row.Status = statusNeeds
	}
	return row
}

func (a *app) lookInto(ctx context.Context, src source, row *statusRow) error {
	address, err := a.address(src.url)
	if err != nil {
		return err
	}
	if isRedis(address) {
		keys, s, err := a.openRedis(ctx, address)
		if err != nil {
			return err
		}
		defer s.Close()
		return a.lookAtKeys(ctx, keys, row)
	}
	pool, err := a.open(ctx, src.url)
	if err != nil {
		return err
	}
	defer pool.Close()
	return a.lookAtTables(ctx, pool, row)
}

// lookAtTables reads what can be read: the error of one component hides nothing of the other.
func (a *app) lookAtTables(ctx context.Context, pool *pgxpool.Pool, row *statusRow) error {
	var errs []error
	found := false
	for _, c := range components {
		v, err := a.version(ctx, pool, &c)
		if err == nil && v.have == 0 {
			continue
		}
		found = true
		if err == nil {
			err = v.check(c.name)
		}
		if err == nil {
			err = a.lookAtComponent(ctx, pool, c.name, row)
		}
		errs = append(errs, err)
	}
	if !found {
		return errors.New("there are no tables of keys or sagas: see fanonce migrate status, and --schema")
	}
	return errors.Join(errs...)
}

func (a *app) lookAtComponent(ctx context.Context, pool *pgxpool.Pool, component string, row *statusRow) error {
	if component == "keys" {
		keys, err := a.tableKeyring(pool)
		if err != nil {
			return err
		}
		return a.lookAtKeys(ctx, keys, row)
	}
	reader, err := a.newSagaReader(pool)
	if err != nil {
		return err
	}
	ctx, cancel := a.bound(ctx)
	defer cancel()
	stats, err := reader.Stats(ctx)
	if err != nil {
		return err
	}
	stuck := stats.ByStatus[journal.Stuck]
	row.StuckSagas = &stuck
	row.OldestSagaSeconds = secondsOf(stuck, stats.OldestStuck)
	return nil
}

func (a *app) lookAtKeys(ctx context.Context, keys *keyring, row *statusRow) error {
	ctx, cancel := a.bound(ctx)
	defer cancel()
	at, err := keys.Attention(ctx)
	if err != nil {
		return err
	}
	row.Unknown, row.Quarantined, row.DeadLetters = &at.Unknown, &at.Quarantined, &at.DeadLetters
	row.OldestKeySeconds = secondsOf(at.Unknown+at.Quarantined+at.DeadLetters, at.Oldest)
	return nil
}

// secondsOf is the age of the oldest of n; nil if n is 0.
func secondsOf(n int64, age time.Duration) *int64 {
	if n == 0 {
		return nil
	}
	seconds := int64(age / time.Second)
	return &seconds
}

func (a *app) printStatus(out *statusOut) error {
	if a.json {
		return writeJSON(a.stdout, out)
	}
	t := newTable(a.stdout, "STORE", "STATUS", "UNKNOWN", "QUARANTINED", "DEAD LETTERS", "STUCK SAGAS", "OLDEST KEY", "OLDEST SAGA", "WHY")
	for _, r := range out.Stores {
		t.row(r.Store, r.Status, orUnknown(r.Unknown), orUnknown(r.Quarantined), orUnknown(r.DeadLetters), orUnknown(r.StuckSagas),
			orNoAge(r.OldestKeySeconds), orNoAge(r.OldestSagaSeconds), r.Error)
	}
	if err := t.flush(); err != nil || !out.NeedsPerson {
		return err
	}
	_, err := fmt.Fprintln(a.stdout, "Type:", strings.Join(listsFor(out.Stores), "; "))
	return err
}

// listsFor returns the commands that list what needs a person.
func listsFor(rows []statusRow) (commands []string) {
	for _, list := range []struct {
		command string
		numbers func(r *statusRow) []*int64
	}{
		{"fanonce keys list", func(r *statusRow) []*int64 { return []*int64{r.Unknown, r.Quarantined} }},
		{"fanonce keys list --state dead-letter", func(r *statusRow) []*int64 { return []*int64{r.DeadLetters} }},
		{"fanonce saga list", func(r *statusRow) []*int64 { return []*int64{r.StuckSagas} }},
	} {
		if slices.ContainsFunc(rows, func(r statusRow) bool { return slices.ContainsFunc(list.numbers(&r), isSome) }) {
			commands = append(commands, list.command)
		}
	}
	return commands
}

func isSome(n *int64) bool { return n != nil && *n > 0 }

// orUnknown is a number for a table; "" if it is not known.
func orUnknown(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// orNoAge is an age for a table; "" if there is none.
func orNoAge(seconds *int64) string {
	if seconds == nil {
		return ""
	}
	return ago(time.Duration(*seconds) * time.Second)
}

// versionOut is the JSON of version.
type versionOut struct {
	Version string         `json:"version"` // of the module; "(devel)" for a build of a clone
	Commit  string         `json:"commit,omitempty"`
	Go      string         `json:"go"`
	Tables  map[string]int `json:"tables"` // the versions that this program knows, by component
}

// readBuild returns what the build knows of itself.
func readBuild() versionOut {
	out := versionOut{Version: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		out.Version, out.Go = info.Main.Version, info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				out.Commit = s.Value
			}
		}
	}
	return out
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program, and of the tables that it knows", Args: takes(0, 0),
		Example: "  fanonce version --json",
		RunE: func(*cobra.Command, []string) error {
			out := readBuild()
			out.Tables = make(map[string]int, len(components))
			lines := []string{"fanonce " + out.Version, out.Go}
			if out.Commit != "" {
				lines = append(lines, "commit "+out.Commit)
			}
			for _, c := range components {
				steps, err := c.steps()
				if err != nil {
					return err
				}
				out.Tables[c.name] = len(steps)
				lines = append(lines, fmt.Sprintf("tables of %s: version %d", c.name, len(steps)))
			}
			return a.printLine(out, strings.Join(lines, "\n"))
		},
	}
}
