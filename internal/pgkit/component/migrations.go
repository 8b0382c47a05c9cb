package component

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// ErrMigrations: the migration files are not numbered as they should be, or do
// not record their version.
var ErrMigrations = errors.New("migrations")

// Migrations are the numbered steps that bring a component's tables from one version to the next.
// The files are NNNN_name.up.sql and NNNN_name.down.sql, counted from 0001 without a gap. They are
// plain SQL that names no schema.
//
// Each up file ends by inserting its number into the table <component>_version
// (version, oldest), which the first one creates, and each down file takes it out
// again. So they can be run by any other migration tool, or by hand.
//
// Programs that know at least the version oldest can go on beside the step. A step that adds a
// column with a default names an earlier version, and a step that takes something away names its
// own. So a rolling deploy migrates first, and the programs from before it go on.
//
// A step must need the locks of tables that are in use for a moment only.
type Migrations struct {
	// Component names the tables' owner, in lower case with underscores.
	Component string
	// Files holds the steps in its root.
	Files fs.FS
}

// A step is one migration.
type step struct{ up, down string }

var (
	stepName = regexp.MustCompile(`^(\d{4})_[a-z0-9_]+\.(up|down)\.sql$`)
	// recordsOldest: each step says by itself who can go on beside it.
	recordsOldest = regexp.MustCompile(`_version\s*\(\s*version\s*,\s*oldest\s*\)\s*values`)
)

// steps reads the files; steps[i] leads to version i+1.
func (m Migrations) steps() ([]step, error) {
	files, err := fs.ReadDir(m.Files, ".")
	if err != nil {
		return nil, fmt.Errorf("%w of %s: %w", ErrMigrations, m.Component, err)
	}
	steps := make([]step, len(files)/2)
	for _, f := range files {
		parts := stepName.FindStringSubmatch(f.Name())
		if parts == nil {
			return nil, fmt.Errorf("%w of %s: file %s", ErrMigrations, m.Component, f.Name())
		}
		n, _ := strconv.Atoi(parts[1]) // four digits
		if n < 1 || n > len(steps) {
			return nil, fmt.Errorf("%w of %s: %s among %d files", ErrMigrations, m.Component, f.Name(), len(files))
		}
		sql, err := fs.ReadFile(m.Files, f.Name())
		if err != nil {
			return nil, fmt.Errorf("%w of %s: %w", ErrMigrations, m.Component, err)
		}
		if parts[2] == "up" {
			steps[n-1].up = string(sql)
		} else {
			steps[n-1].down = string(sql)
		}
	}
	for i, s := range steps {
		if s.up == "" || s.down == "" {
			return nil, fmt.Errorf("%w of %s: version %d lacks a file", ErrMigrations, m.Component, i+1)
		}
		if !recordsOldest.MatchString(s.up) {
			return nil, fmt.Errorf("%w of %s: version %d does not insert (version, oldest)", ErrMigrations, m.Component, i+1)
		}
	}
	return steps, nil
}

// Latest returns the version that [Migrations.Up] leads to.
func (m Migrations) Latest() (int, error) {
	steps, err := m.steps()
	return len(steps), err
}

// Up brings the tables in the named Postgres schema to the latest version, in
// one transaction, and does nothing if they are there. It creates the schema if
// it is missing; an empty name means the first one in the search_path. Processes
// that migrate at once wait for each other. Up also does nothing where the tables are
// newer and this program can use them.
//
// Up waits for the lock of a table for a fifth of a second: all statements that need the table wait
// behind Up for as long. Then it rolls back, pauses for a second and tries again, until ctx ends.
// So a backup delays the migration and no requests. An autovacuum of the table delays it as well.
//
// It returns a [*SchemaError] if the tables are newer and this program cannot use
// them, and an error wrapping [pgkit.ErrSchemaName] or [ErrMigrations].
func (m Migrations) Up(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	steps, err := m.steps()
	if err != nil {
		return err
	}
	return m.migrate(ctx, pool, schema, func(tx pgx.Tx, have state) error {
		if have.version > len(steps) {
			return m.verdict(schema, have, len(steps))
		}
		for n := have.version; n < len(steps); n++ {
			if err := m.step(ctx, tx, steps[n].up, n+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// Down takes the tables in the named Postgres schema back to a version, in one transaction. Version
// 0 drops the tables with all rows in them. It waits for locks as Up does. It returns a
// [*SchemaError] if the tables are newer than this program, and the other errors of Up.
func (m Migrations) Down(ctx context.Context, pool *pgxpool.Pool, schema string, to int) error {
	steps, err := m.steps()
	if err != nil {
		return err
	}
	if to < 0 || to > len(steps) {
		return fmt.Errorf("%w of %s: no version %d", ErrMigrations, m.Component, to)
	}
	return m.migrate(ctx, pool, schema, func(tx pgx.Tx, have state) error {
		if have.version > len(steps) {
			return &SchemaError{Component: m.Component, Schema: schema, Have: have.version, Oldest: have.oldest, Want: len(steps)}
		}
		for n := have.version; n > to; n-- {
			if err := m.step(ctx, tx, steps[n-1].down, n-1); err != nil {
				return err
			}
		}
		return nil
	})
}

// step runs one file and checks that the file recorded its version.
func (m Migrations) step(ctx context.Context, tx pgx.Tx, sql string, leadsTo int) error {
	if _, err := tx.Conn().PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("migrating %s to version %d: %w", m.Component, leadsTo, err)
	}
	have, err := m.state(ctx, tx, "")
	if err != nil {
		return err
	}
	if have.version != leadsTo {
		return fmt.Errorf("%w of %s: the step to version %d recorded %d", ErrMigrations, m.Component, leadsTo, have.version)
	}
	if have.version > 0 && (have.oldest < 1 || have.oldest > have.version) {
		return fmt.Errorf("%w of %s: version %d has oldest %d", ErrMigrations, m.Component, have.version, have.oldest)
	}
	return nil
}

const (
	// migrationLockTimeout bounds how long a migration queues for a table. All reads and
	// writes of the table queue behind it.
	migrationLockTimeout = "200ms"
	// migrationPause is how long other statements have the table before the next attempt.
	migrationPause = time.Second
)

// migrate calls body in a transaction of its own, and again where that could not have its
// locks.
func (m Migrations) migrate(ctx context.Context, pool *pgxpool.Pool, schema string, body func(pgx.Tx, state) error) error {
	if err := pgkit.CheckSchemaName(schema); err != nil {
		return err
	}
	for {
		err := m.attempt(ctx, pool, schema, body)
		if f := pgkit.Classify(err); f != pgkit.FailureLockTimeout && f != pgkit.FailureConflict {
			return err
		}
		pause := time.NewTimer(migrationPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// attempt opens the transaction, keeps others out and says where the tables are. Only ctx
// bounds the wait for others who migrate: attempt holds no lock of a table then.
func (m Migrations) attempt(ctx context.Context, pool *pgxpool.Pool, schema string, body func(pgx.Tx, state) error) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := m.exclude(ctx, tx, schema); err != nil {
			return fmt.Errorf("waiting for another migration of %s: %w", m.Component, err)
		}
		if err := enterSchema(ctx, tx, schema); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "select set_config('lock_timeout', $1, true)", migrationLockTimeout); err != nil {
			return fmt.Errorf("migrating %s: %w", m.Component, err)
		}
		have, err := m.state(ctx, tx, "")
		if err != nil {
			return err
		}
		return body(tx, have)
	})
}

// migrationLock waits for others who migrate the same tables, whether they name the schema or leave it
// to the search_path. Migration files for other tools take the same lock, see examples/migrations.
const migrationLock = `select set_config('lock_timeout', '0', true), pg_advisory_xact_lock(hashtextextended(
	'fanonce migration ' || $1::text || ' ' || coalesce(nullif($2::text, ''), current_schema()::text, ''), 0))`

func (m Migrations) exclude(ctx context.Context, tx pgx.Tx, schema string) error {
	_, err := tx.Exec(ctx, migrationLock, m.Component, schema)
	return err
}

func enterSchema(ctx context.Context, tx pgx.Tx, schema string) error {
	if schema == "" {
		return nil
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	var exists bool
	if err := tx.QueryRow(ctx, "select exists (select from pg_namespace where nspname = $1)", schema).Scan(&exists); err != nil {
		return fmt.Errorf("looking for schema %s: %w", schema, err)
	}
	if !exists {
		if _, err := tx.Exec(ctx, "create schema if not exists "+quoted); err != nil {
			return fmt.Errorf("creating schema %s: %w", schema, err)
		}
	}
	if _, err := tx.Exec(ctx, "set local search_path to "+quoted); err != nil {
		return fmt.Errorf("entering schema %s: %w", schema, err)
	}
	return nil
}

// Check returns nil if the tables are at the latest version, or at a later one that this
// program can use. It returns a [*SchemaError] if they are not, and an error wrapping
// [pgkit.ErrSchemaName] or [ErrMigrations].
func (m Migrations) Check(ctx context.Context, db pgkit.Queryer, schema string) error {
	want, err := m.Latest()
	if err != nil {
		return err
	}
	have, err := m.state(ctx, db, schema)
	if err != nil {
		return err
	}
	return m.verdict(schema, have, want)
}

// verdict says whether a program that knows the version want can use tables that have another.
func (m Migrations) verdict(schema string, have state, want int) error {
	if have.version == want || (have.version > want && have.oldest <= want) {
		return nil
	}
	return &SchemaError{Component: m.Component, Schema: schema, Have: have.version, Oldest: have.oldest, Want: want}
}

// A state is the state of the tables by a component's version table. It is zero where there are no
// tables.
type state struct {
	version int // the last step that was taken
	oldest  int // the tables can be used by programs that know this version
}

// state reads the version table. It asks for the table first: a statement that fails
// would end the transaction that it may be in. It returns an error wrapping [pgkit.ErrSchemaName].
func (m Migrations) state(ctx context.Context, db pgkit.Queryer, schema string) (v state, err error) {
	if err := pgkit.CheckSchemaName(schema); err != nil {
		return v, err
	}
	table := pgkit.QualifyTable(schema, pgx.Identifier{m.Component + "_version"}.Sanitize())
	var exists bool
	if err := db.QueryRow(ctx, "select to_regclass($1) is not null", table).Scan(&exists); err != nil {
		return v, fmt.Errorf("version of %s: %w", m.Component, err)
	}
	if !exists {
		return v, nil
	}
	// The maximum of both: what one step took away, no later step brings back.
	err = db.QueryRow(ctx, "select coalesce(max(version), 0), coalesce(max(oldest), 0) from "+table).Scan(&v.version, &v.oldest)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42P01" { // gone since
		return state{}, nil
	}
	if err != nil {
		return v, fmt.Errorf("version of %s: %w", m.Component, err)
	}
	return v, nil
}
