package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A component is one set of tables that migrates by itself.
type component struct {
	name   string // as --component has it
	prefix string // of its tables: <prefix>_version has the steps that were taken
	files  fs.FS
	up     func(ctx context.Context, pool *pgxpool.Pool, schema string) error
	roles  string // SQL of its database roles
	grant  func(ctx context.Context, pool *pgxpool.Pool, schema string) error
}

var components = []component{
	{"keys", "idempotency", pgstore.MigrationFiles, pgstore.Migrate, pgstore.RolesSQL, grantKeys},
	{"sagas", "saga", pgjournal.MigrationFiles, pgjournal.Migrate, pgjournal.RolesSQL, grantSagas},
}

func grantKeys(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return pgstore.Roles{Schema: schema}.Grant(ctx, pool)
}

func grantSagas(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return pgjournal.Roles{Schema: schema}.Grant(ctx, pool)
}

func componentNames() []string {
	var names []string
	for _, c := range components {
		names = append(names, c.name)
	}
	return names
}

// pickComponents returns the components of these names, in the order in which they migrate.
func pickComponents(names []string) ([]component, error) {
	for _, name := range names {
		if !slices.Contains(componentNames(), name) {
			return nil, fmt.Errorf("--component %q is none of %s", name, strings.Join(componentNames(), ", "))
		}
	}
	var out []component
	for _, c := range components {
		if slices.Contains(names, c.name) {
			out = append(out, c)
		}
	}
	return out, nil
}

// A step is one migration of a component.
type step struct {
	number             int
	name, sqlUp, sqlDn string
}

// steps returns the component's migrations, the first one first.
func (c *component) steps() ([]step, error) {
	ups, err := fs.Glob(c.files, "*.up.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(ups)
	steps := make([]step, len(ups))
	for i, up := range ups {
		down := strings.TrimSuffix(up, ".up.sql") + ".down.sql"
		sqlUp, err := fs.ReadFile(c.files, up)
		if err != nil {
			return nil, err
		}
		sqlDown, err := fs.ReadFile(c.files, down)
		if err != nil {
			return nil, err
		}
		steps[i] = step{i + 1, strings.TrimSuffix(up, ".up.sql"), string(sqlUp), string(sqlDown)}
	}
	return steps, nil
}

// A version is where the tables of a component are.
type version struct {
	have   int // the last step that was taken; 0: there are no tables
	oldest int // programs that know this step can use the tables
	want   int // the last step that this program knows
}

// The states of tables, as output has them.
const (
	stateMissing = "missing"
	stateOld     = "old"
	stateCurrent = "current"
	stateAhead   = "ahead" // newer, and this program can use them
	stateNewer   = "newer"
)

func (v version) state() string {
	switch {
	case v.have == 0:
		return stateMissing
	case v.have < v.want:
		return stateOld
	case v.have == v.want:
		return stateCurrent
	case v.oldest <= v.want:
		return stateAhead
	default:
		return stateNewer
	}
}

// usable reports whether this program can work with tables of that version.
func (v version) usable() bool { return slices.Contains([]string{stateCurrent, stateAhead}, v.state()) }

// check returns an error where this program cannot work with tables of that version.
func (v version) check(name string) error {
	if v.usable() {
		return nil
	}
	return fmt.Errorf("the tables of %s are %s: see fanonce doctor", name, v.state())
}

// qualify returns a table's name for SQL.
func qualify(schema, table string) string {
	if schema == "" {
		return pgx.Identifier{table}.Sanitize()
	}
	return pgx.Identifier{schema, table}.Sanitize()
}

// version asks the database.
func (a *app) version(ctx context.Context, pool *pgxpool.Pool, c *component) (version, error) {
	steps, err := c.steps()
	if err != nil {
		return version{}, err
	}
	v := version{want: len(steps)}
	ctx, cancel := a.bound(ctx)
	defer cancel()
	table := qualify(a.schema, c.prefix+"_version")
	var exists bool
	if err := pool.QueryRow(ctx, "select to_regclass($1) is not null", table).Scan(&exists); err != nil || !exists {
		return v, err
	}
	err = pool.QueryRow(ctx, "select coalesce(max(version), 0), coalesce(max(oldest), 0) from "+table).Scan(&v.have, &v.oldest)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42P01" {
		return v, nil // dropped since
	}
	if err != nil {
		return v, fmt.Errorf("version of %s: %w", c.name, err)
	}
	return v, nil
}

// present returns the components whose tables are there.
func (a *app) present(ctx context.Context, pool *pgxpool.Pool) ([]component, error) {
	var out []component
	for _, c := range components {
		v, err := a.version(ctx, pool, &c)
		if err != nil {
			return nil, err
		}
		if v.have > 0 {
			out = append(out, c)
		}
	}
	return out, nil
}

var created = regexp.MustCompile(`(?m)^create (?:unique )?(table|index) (\w+)`)

// relations returns the tables or the indexes that the steps up to a version create.
func (c *component) relations(kind string, upTo int) ([]string, error) {
	steps, err := c.steps()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range steps[:min(upTo, len(steps))] {
		for _, found := range created.FindAllStringSubmatch(s.sqlUp, -1) {
			if found[1] == kind {
				names = append(names, found[2])
			}
		}
	}
	return names, nil
}
