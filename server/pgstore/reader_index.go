package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A readerIndex is an index that only a [Reader] needs. Every claim pays for it, so no migration makes it.
type readerIndex struct{ name, columns string }

var readerIndexes = []readerIndex{
	{"idempotency_created_at", "(created_at, key)"},
	{"idempotency_children", "(parent) where parent is not null"},
}

// indexPause is the time between two looks at an index that another process makes.
const indexPause = 200 * time.Millisecond

// AddReaderIndexes makes the two indexes that a [Reader] needs for Browse, for Estimate, and for lists of children:
// idempotency_created_at on (created_at, key), and idempotency_children on (parent). Each claim then writes an entry of
// each: DESIGN.md has the cost. An empty schema means that the search_path finds the tables.
//
// It builds them concurrently: requests go on. It cannot be in a transaction, and its connection must not go through a
// pooler in transaction mode. It takes as long as the server needs to read the table twice, and to wait for all
// older transactions. If ctx ends before that, an invalid index stays, which the next call drops and makes anew. An
// index that is there is left as it is. Several processes may call it at once: one makes the indexes, and the others
// wait for them. To take the indexes away, drop them.
//
// The pool's role must own the tables. One connection of the pool is held meanwhile. AddReaderIndexes
// returns errors wrapping [ErrConfig] for a schema that cannot be, or for an index of such a name with
// other columns, and [ErrSchemaMissing].
func AddReaderIndexes(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	q, err := readerQueriesBySchema.For(schema)
	if err != nil {
		return fmt.Errorf("%w: schema: %w", ErrConfig, err)
	}
	if pool == nil {
		return fmt.Errorf("%w: pool is nil", ErrConfig)
	}
	m := indexMaker{pool, q, table{schema: schema, name: "idempotency"}.String()}
	for {
		done, err := m.there(ctx)
		if err == nil && !done {
			done, err = m.alone(ctx)
		}
		if err != nil || done {
			return wrap("reader indexes", err)
		}
		select {
		case <-time.After(indexPause):
		case <-ctx.Done():
			return wrap("reader indexes", ctx.Err())
		}
	}
}

// An indexMaker makes the indexes of one table.
type indexMaker struct {
	pool  *pgxpool.Pool
	query *readerQueries
	table string // as it is written in SQL
}

// there reports whether both indexes are there and valid.
func (m indexMaker) there(ctx context.Context) (bool, error) {
	var exists, times, children bool
	if err := m.pool.QueryRow(ctx, "select to_regclass($1) is not null", m.table).Scan(&exists); err != nil {
		return false, err
	}
	if !exists {
		return false, fmt.Errorf("%w: no table %s", ErrSchemaMissing, m.table)
	}
	err := m.pool.QueryRow(ctx, m.query.indexes.SQL()).Scan(&times, &children)
	return times && children, err
}

// alone makes the indexes unless another process makes them at this moment. It reports whether they are there. Two
// processes that build indexes of one table wait for each other, which is a deadlock. So one process has a lock, in a
// transaction that holds nothing else that the builds would wait for, see [Store.alone].
func (m indexMaker) alone(ctx context.Context) (done bool, err error) {
	tx, err := m.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var won bool
	const lock = "select pg_try_advisory_xact_lock(hashtext('fanonce reader ' || $1::regclass::oid))"
	if err := tx.QueryRow(ctx, lock, pgx.QueryExecModeSimpleProtocol, m.table).Scan(&won); err != nil || !won {
		return false, err
	}
	conn, err := unhurried(ctx, m.pool)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, index := range readerIndexes {
		if built, err := m.build(ctx, conn, index); err != nil || !built {
			return false, err
		}
	}
	var times, children bool
	if err := conn.QueryRow(ctx, m.query.indexes.SQL()).Scan(&times, &children); err != nil {
		return false, err
	}
	if !times || !children {
		return false, fmt.Errorf("%w: an index named idempotency_created_at or idempotency_children has other columns", ErrConfig)
	}
	return true, nil
}

// unhurried returns a connection without timeouts of statements and locks: a build waits for all older transactions.
func unhurried(ctx context.Context, pool *pgxpool.Pool) (*pgx.Conn, error) {
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

// build makes an index that is not there. It drops an invalid one that an earlier build left. It reports false if
// somebody is building such an index at this moment.
func (m indexMaker) build(ctx context.Context, conn *pgx.Conn, index readerIndex) (bool, error) {
	const look = `select x.indexrelid::regclass::text, x.indisvalid,
			exists (select from pg_stat_progress_create_index p where p.index_relid = x.indexrelid)
		from pg_index x join pg_class c on c.oid = x.indexrelid
		where x.indrelid = $1::regclass and c.relname = $2`
	var name string
	var valid, building bool
	switch err := conn.QueryRow(ctx, look, m.table, index.name).Scan(&name, &valid, &building); {
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
	_, err := conn.Exec(ctx, "create index concurrently if not exists "+index.name+" on "+m.table+" "+index.columns)
	return err == nil, err
}
