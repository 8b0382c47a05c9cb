package component

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// An Index is one that no migration makes, because each write pays for it. Columns is what follows the table in CREATE
// INDEX.
type Index struct{ Name, Columns string }

// An IndexBuild makes indexes of one table concurrently. All fields are required.
type IndexBuild struct {
	Pool    *pgxpool.Pool // its role owns the table
	Table   string        // as it is written in SQL
	Indexes []Index
	// Look returns one row, and Valid reads from it whether all the indexes are there and valid, with their columns.
	Look  pgkit.Query
	Valid func(row pgx.Row) (bool, error)
	// Missing and Wrong are the errors for an absent table, and for an index of such a name with other columns.
	Missing, Wrong error
}

// indexPause is the time between two looks at an index that another process makes.
const indexPause = 200 * time.Millisecond

// Run makes the indexes that are not there. It blocks until they are, or ctx ends. It drops an invalid index that an
// earlier build left. Several processes may call it at once: one makes the indexes, and the others wait for them.
func (b IndexBuild) Run(ctx context.Context) error {
	for {
		done, err := b.there(ctx)
		if err == nil && !done {
			done, err = b.buildAlone(ctx)
		}
		if err != nil || done {
			return err
		}
		select {
		case <-time.After(indexPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// there reports whether all the indexes are there and valid.
func (b IndexBuild) there(ctx context.Context) (bool, error) {
	var exists bool
	if err := b.Pool.QueryRow(ctx, "select to_regclass($1) is not null", b.Table).Scan(&exists); err != nil {
		return false, err
	}
	if !exists {
		return false, fmt.Errorf("%w: there is no table %s: call Migrate", b.Missing, b.Table)
	}
	return b.Valid(b.Pool.QueryRow(ctx, b.Look.SQL()))
}

// buildAlone makes the indexes unless another process makes them at this moment. It reports whether they are there. Two
// processes that build indexes of one table wait for each other, which is a deadlock. So one process has a lock, in a
// transaction that holds nothing else that the builds would wait for.
func (b IndexBuild) buildAlone(ctx context.Context) (done bool, err error) {
	tx, err := b.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var won bool
	const lock = "select pg_try_advisory_xact_lock(hashtext('fanonce reader ' || $1::regclass::oid))"
	if err := tx.QueryRow(ctx, lock, pgx.QueryExecModeSimpleProtocol, b.Table).Scan(&won); err != nil || !won {
		return false, err
	}
	conn, err := connectWithoutTimeouts(ctx, b.Pool)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, index := range b.Indexes {
		if built, err := b.build(ctx, conn, index); err != nil || !built {
			return false, err
		}
	}
	done, err = b.Valid(conn.QueryRow(ctx, b.Look.SQL()))
	if err == nil && !done {
		err = fmt.Errorf("%w: an index named %s has other columns", b.Wrong, b.names())
	}
	return done, err
}

func (b IndexBuild) names() string {
	names := make([]string, len(b.Indexes))
	for i, index := range b.Indexes {
		names[i] = index.Name
	}
	return strings.Join(names, " or ")
}

// connectWithoutTimeouts returns a connection without timeouts of statements and locks: a build waits for all older transactions.
func connectWithoutTimeouts(ctx context.Context, pool *pgxpool.Pool) (*pgx.Conn, error) {
	cfg := pool.Config()
	conn := cfg.ConnConfig
	conn.RuntimeParams["statement_timeout"], conn.RuntimeParams["lock_timeout"] = "0", "0"
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, conn); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, conn)
}

// build makes an index that is not there. It drops an invalid one first. It reports false if somebody builds such an
// index at this moment.
func (b IndexBuild) build(ctx context.Context, conn *pgx.Conn, index Index) (bool, error) {
	const look = `select x.indexrelid::regclass::text, x.indisvalid,
			exists (select from pg_stat_progress_create_index p where p.index_relid = x.indexrelid)
		from pg_index x join pg_class c on c.oid = x.indexrelid
		where x.indrelid = $1::regclass and c.relname = $2`
	var name string
	var valid, building bool
	switch err := conn.QueryRow(ctx, look, b.Table, index.Name).Scan(&name, &valid, &building); {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return false, err
	case valid:
		return true, nil
	case building:
		return false, nil
	default:
		if _, err := conn.Exec(ctx, "drop index concurrently if exists "+name); err != nil {
			return false, err
		}
	}
	_, err := conn.Exec(ctx, "create index concurrently if not exists "+index.Name+" on "+b.Table+" "+index.Columns)
	return err == nil, err
}
