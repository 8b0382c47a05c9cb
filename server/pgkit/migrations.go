package pgkit

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrMigrations: the migration files are not numbered as they should be, or do
// not record their version.
var ErrMigrations = errors.New("pgkit: migrations")

// Migrations are the numbered steps that bring a component's tables from one
// version to the next: files NNNN_name.up.sql and NNNN_name.down.sql, counted
// from 0001 without a gap, in plain SQL that names no schema.
//
// Each up file ends by inserting its number into the table <component>_version
// (version), which the first one creates, and each down file takes it out again.
// So they can be run by any other migration tool, or by hand.
type Migrations struct {
	// Component names the tables' owner, in lower case with underscores.
	Component string
	// Files holds the steps in its root.
	Files fs.FS
}

// A step is one migration.
type step struct{ up, down string }

var stepName = regexp.MustCompile(`^(\d{4})_[a-z0-9_]+\.(up|down)\.sql$`)

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
// that migrate at once wait for each other.
//
// It returns a [*SchemaError] if the tables are newer, and an error wrapping
// [ErrSchemaName] or [ErrMigrations].
func (m Migrations) Up(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	steps, err := m.steps()
	if err != nil {
		return err
	}
	return m.migrate(ctx, pool, schema, func(tx pgx.Tx, have int) error {
		if have > len(steps) {
			return &SchemaError{Component: m.Component, Schema: schema, Have: have, Want: len(steps)}
		}
		for n := have; n < len(steps); n++ {
			if err := m.step(ctx, tx, steps[n].up, n+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// Down takes the tables in the named Postgres schema back to a version, in one
// transaction; to 0 means away with them and all that is in them. Errors are
// those of Up.
func (m Migrations) Down(ctx context.Context, pool *pgxpool.Pool, schema string, to int) error {
	steps, err := m.steps()
	if err != nil {
		return err
	}
	if to < 0 || to > len(steps) {
		return fmt.Errorf("%w of %s: no version %d", ErrMigrations, m.Component, to)
	}
	return m.migrate(ctx, pool, schema, func(tx pgx.Tx, have int) error {
		if have > len(steps) {
			return &SchemaError{Component: m.Component, Schema: schema, Have: have, Want: len(steps)}
		}
		for n := have; n > to; n-- {
			if err := m.step(ctx, tx, steps[n-1].down, n-1); err != nil {
				return err
			}
		}
		return nil
	})
}

// step runs one file and looks whether it recorded what it did.
func (m Migrations) step(ctx context.Context, tx pgx.Tx, sql string, leadsTo int) error {
	if _, err := tx.Conn().PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("pgkit: migrating %s to version %d: %w", m.Component, leadsTo, err)
	}
	have, err := m.version(ctx, tx, "")
	if err != nil {
		return err
	}
	if have != leadsTo {
		return fmt.Errorf("%w of %s: the step to version %d recorded %d", ErrMigrations, m.Component, leadsTo, have)
	}
	return nil
}

// migrate opens the transaction, keeps others out and says where the tables are.
func (m Migrations) migrate(ctx context.Context, pool *pgxpool.Pool, schema string, body func(pgx.Tx, int) error) error {
	if err := CheckSchemaName(schema); err != nil {
		return err
	}
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1::bigint)", m.lock(schema)); err != nil {
			return fmt.Errorf("pgkit: waiting for another migration of %s: %w", m.Component, err)
		}
		if err := enterSchema(ctx, tx, schema); err != nil {
			return err
		}
		have, err := m.version(ctx, tx, "")
		if err != nil {
			return err
		}
		return body(tx, have)
	})
}

// lock is the same number for whoever migrates the same tables.
func (m Migrations) lock(schema string) int64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "fanonce migration\x00%s\x00%s", m.Component, schema)
	return int64(h.Sum64()) //nolint:gosec // any bits will do
}

func enterSchema(ctx context.Context, tx pgx.Tx, schema string) error {
	if schema == "" {
		return nil
	}
	quoted := strings.TrimSuffix(prefix(schema), ".")
	var exists bool
	if err := tx.QueryRow(ctx, "select exists (select from pg_namespace where nspname = $1)", schema).Scan(&exists); err != nil {
		return fmt.Errorf("pgkit: looking for schema %s: %w", schema, err)
	}
	if !exists {
		if _, err := tx.Exec(ctx, "create schema if not exists "+quoted); err != nil {
			return fmt.Errorf("pgkit: creating schema %s: %w", schema, err)
		}
	}
	if _, err := tx.Exec(ctx, "set local search_path to "+quoted); err != nil {
		return fmt.Errorf("pgkit: entering schema %s: %w", schema, err)
	}
	return nil
}

// Check returns nil if the tables are at the latest version, a [*SchemaError]
// if they are not, and an error wrapping [ErrSchemaName] or [ErrMigrations].
func (m Migrations) Check(ctx context.Context, db Queryer, schema string) error {
	if err := CheckSchemaName(schema); err != nil {
		return err
	}
	want, err := m.Latest()
	if err != nil {
		return err
	}
	have, err := m.version(ctx, db, schema)
	if err != nil {
		return err
	}
	if have != want {
		return &SchemaError{Component: m.Component, Schema: schema, Have: have, Want: want}
	}
	return nil
}

// version returns 0 if there are no tables. It asks for the table first: a
// statement that fails would end the transaction that it may be in.
func (m Migrations) version(ctx context.Context, db Queryer, schema string) (int, error) {
	table := prefix(schema) + pgx.Identifier{m.Component + "_version"}.Sanitize()
	var exists bool
	if err := db.QueryRow(ctx, "select to_regclass($1) is not null", table).Scan(&exists); err != nil {
		return 0, fmt.Errorf("pgkit: version of %s: %w", m.Component, err)
	}
	if !exists {
		return 0, nil
	}
	var version int
	err := db.QueryRow(ctx, "select coalesce(max(version), 0) from "+table).Scan(&version)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42P01" { // gone since
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("pgkit: version of %s: %w", m.Component, err)
	}
	return version, nil
}
