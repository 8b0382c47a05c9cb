package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// readerIndex is the index that only a [Reader] needs. Each new saga pays for it, so no migration makes it.
const readerIndex = "saga_created_at"

// indexPause is the time between two looks at an index that another process makes.
const indexPause = 200 * time.Millisecond

// AddReaderIndexes makes the index that a [Reader] needs for lists with finished sagas: saga_created_at on (created_at,
// id). Each new saga then writes one more entry of an index; no later write does. An empty schema means that the
// search_path finds the tables.
//
// It builds the index concurrently, so sagas go on. It opens a connection of its own, which must not go through a
// pooler in transaction mode. It takes as long as the server needs to read the table twice, and to wait for all older
// transactions. If ctx ends before that, an invalid index stays, which the next call drops and makes anew. A valid
// index is left as it is. Several processes may call it at once. To take the index away, drop it.
//
// The pool's role must own the tables. The errors wrap [ErrConfig] for a schema that cannot be, or for an index of that
// name with other columns, and [ErrSchemaMissing].
func AddReaderIndexes(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	q, err := readerQueriesBySchema.For(schema)
	if err != nil {
		return fmt.Errorf("%w: schema: %w", ErrConfig, err)
	}
	if pool == nil {
		return fmt.Errorf("%w: pool is nil", ErrConfig)
	}
	conn, err := unhurried(ctx, pool)
	if err != nil {
		return wrap("reader indexes", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	m := indexMaker{conn, q.index, "saga"}
	if schema != "" {
		m.table = pgx.Identifier{schema, "saga"}.Sanitize()
	}
	for {
		done, err := m.step(ctx)
		if done || err != nil && !again(err) {
			return wrap("reader indexes", err)
		}
		select {
		case <-time.After(indexPause):
		case <-ctx.Done():
			return wrap("reader indexes", errors.Join(ctx.Err(), err))
		}
	}
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

// again reports whether two processes that make the index at once were in each other's way: a deadlock, or a name that
// was taken in the meantime.
func again(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && slices.Contains([]string{"40P01", "42P07", "23505", "42704"}, refused.Code)
}

// An indexMaker makes the index of one table.
type indexMaker struct {
	conn  *pgx.Conn
	check pgkit.Query
	table string // as it is written in SQL
}

// step makes the index unless it is there. It reports false if another process makes the index at this moment.
func (m indexMaker) step(ctx context.Context) (done bool, err error) {
	var exists bool
	if err := m.conn.QueryRow(ctx, "select to_regclass($1) is not null", m.table).Scan(&exists); err != nil {
		return false, err
	}
	if !exists {
		return false, fmt.Errorf("%w: no table %s", ErrSchemaMissing, m.table)
	}
	if there, err := m.there(ctx); err != nil || there {
		return there, err
	}
	const look = `select x.indexrelid::regclass::text, x.indisvalid,
			exists (select from pg_stat_progress_create_index p where p.index_relid = x.indexrelid)
		from pg_index x join pg_class c on c.oid = x.indexrelid
		where x.indrelid = $1::regclass and c.relname = $2`
	var name string
	var valid, building bool
	switch err := m.conn.QueryRow(ctx, look, m.table, readerIndex).Scan(&name, &valid, &building); {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return false, err
	case valid: // another process has finished it since, or it is another index
		there, err := m.there(ctx)
		if err == nil && !there {
			err = fmt.Errorf("%w: the index %s has other columns", ErrConfig, name)
		}
		return there, err
	case building:
		return false, nil
	default:
		if _, err := m.conn.Exec(ctx, "drop index concurrently if exists "+name); err != nil {
			return false, err
		}
	}
	_, err = m.conn.Exec(ctx, "create index concurrently if not exists "+readerIndex+" on "+m.table+" (created_at, id)")
	return false, err // the next step looks whether it is valid
}

// there reports whether the index is there and valid.
func (m indexMaker) there(ctx context.Context) (bool, error) {
	var have rights
	err := m.conn.QueryRow(ctx, m.check.SQL()).Scan(&have.index, &have.failures)
	return have.index, err
}
