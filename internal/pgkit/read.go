package pgkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// One sends a statement that changes nothing, and returns its first row; without a
// row, an error wrapping [pgx.ErrNoRows].
func One[T any](ctx context.Context, db Queryer, st Statement, scan pgx.RowToFunc[T]) (T, error) {
	return queryNamed(ctx, db, st, func(rows pgx.Rows) (T, error) { return pgx.CollectOneRow(rows, scan) })
}

// All is [One] for all rows. Without any it returns an empty slice.
func All[T any](ctx context.Context, db Queryer, st Statement, scan pgx.RowToFunc[T]) ([]T, error) {
	return queryNamed(ctx, db, st, func(rows pgx.Rows) ([]T, error) { return pgx.CollectRows(rows, scan) })
}

func queryNamed[T any](ctx context.Context, db Queryer, st Statement, collect func(pgx.Rows) (T, error)) (T, error) {
	var none T
	if err := st.Err(); err != nil {
		return none, err
	}
	pool, ok := db.(*pgxpool.Pool)
	if !ok { // a transaction, or a connection that is somebody else's
		return send(ctx, db, st, collect)
	}
	conn, err := Acquire(ctx, pool)
	if err != nil {
		return none, err
	}
	defer conn.Release()
	var value T
	err = sendOne(ctx, conn.Conn(), part{st, func(rows pgx.Rows) (err error) {
		value, err = collect(rows)
		return err
	}})
	return value, err
}

func send[T any](ctx context.Context, db Queryer, st Statement, collect func(pgx.Rows) (T, error)) (T, error) {
	rows, err := db.Query(ctx, st.SQL, st.Args...)
	if err != nil {
		var none T
		return none, err
	}
	return collect(rows)
}

// RowsUnder is [Rows] with settings in front of st, such as a lock timeout. Both go
// in one round trip and in one transaction. The rows of settings are dropped. A
// setting must end with the transaction.
//
// The statements are not named: naming takes a round trip for each of them on a new
// connection. So RowsUnder is for statements that are rare and must be in time.
func RowsUnder[T any](ctx context.Context, w *Writer, settings, st Statement, scan pgx.RowToFunc[T]) ([]T, error) {
	if err := errors.Join(settings.Err(), st.Err()); err != nil {
		return nil, err
	}
	return Do(ctx, w, func(ctx context.Context, conn *pgx.Conn) (found []T, err error) {
		err = sendUnnamed(ctx, conn, []part{
			{Statement: settings, read: skip},
			{Statement: st, read: func(rows pgx.Rows) error {
				found, err = pgx.CollectRows(rows, scan)
				return err
			}},
		})
		return found, err
	})
}

// AllUnder is [All] with settings in front of st, as for the planner. Both go in one round
// trip and in one transaction. The rows of settings are dropped. A setting must end with the
// transaction.
func AllUnder[T any](ctx context.Context, pool *pgxpool.Pool, settings, st Statement, scan pgx.RowToFunc[T]) ([]T, error) {
	if err := errors.Join(settings.Err(), st.Err()); err != nil {
		return nil, err
	}
	conn, err := Acquire(ctx, pool)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	var found []T
	err = sendReads(ctx, conn.Conn(), []part{{settings, skip}, {st, func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, scan)
		return err
	}}})
	return found, err
}

// sendReads sends statements that change nothing in one round trip.
func sendReads(ctx context.Context, conn *pgx.Conn, parts []part) error {
	return sendNamed(ctx, conn, parts, func() error {
		batch := new(pgx.Batch)
		for _, p := range parts {
			batch.Queue(p.SQL, p.Args...).Query(p.read)
		}
		return conn.SendBatch(ctx, batch).Close()
	})
}

// sendOne sends one statement that needs no other around it.
func sendOne(ctx context.Context, conn *pgx.Conn, p part) error {
	if err := p.Err(); err != nil {
		return err
	}
	for tried := false; ; tried = true {
		err := Name(ctx, conn, p.SQL)
		if err == nil {
			var rows pgx.Rows
			if rows, err = conn.Query(ctx, p.SQL, p.Args...); err == nil {
				err = p.read(rows)
			}
		}
		if tried || !mendNames(ctx, conn, &err) {
			return err
		}
	}
}

// ErrTooSlow: the server ended a bounded statement, because its time was up or because a person canceled
// it. Nothing changed.
var ErrTooSlow = errors.New("the statement ran out of time")

// beginBounded makes a block in which each statement has a limit. JIT is off because compiling often takes longer than
// the statement.
const beginBounded = "begin isolation level read committed read only; set local statement_timeout = %s; set local jit = off"

// A Question is one statement of a bounded read, and the function that takes its rows. A nil Read drops the rows: the
// statement then is a setting for those behind it, and must end with the transaction.
type Question struct {
	Statement

	Read func(pgx.Rows) error
}

// RowsInto returns a question whose rows scan puts into all.
func RowsInto[T any](all *[]T, st Statement, scan pgx.RowToFunc[T]) Question {
	return Question{st, func(rows pgx.Rows) (err error) {
		*all, err = pgx.CollectRows(rows, scan)
		return err
	}}
}

// ReadBounded sends questions with a limit that the server itself keeps. So a person who looks cannot use
// the server for longer, even if this process dies. The limit counts for each statement by itself.
// It covers waits for locks, also while the server parses a statement. It does not cover the wait for a
// connection of the pool, which ctx ends.
//
// All questions go in one round trip, in a transaction that only reads. So they work behind a pooler in transaction
// mode. The pool need not have gone through [Prepare].
//
// limit is rounded down to milliseconds, and the least is 1 ms. The error wraps [ErrTooSlow] if the
// limit is over.
func ReadBounded(ctx context.Context, pool *pgxpool.Pool, limit time.Duration, questions ...Question) error {
	batch := new(pgx.Batch)
	for _, q := range questions {
		if err := q.Err(); err != nil {
			return err
		}
		queued := batch.Queue(q.SQL, q.Args...)
		if q.Read != nil {
			queued.Query(q.Read)
		}
	}
	limit = max(limit, time.Millisecond)
	block := pgx.TxOptions{BeginQuery: fmt.Sprintf(beginBounded, Milliseconds(limit))}
	err := pgx.BeginTxFunc(ctx, pool, block, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	if ctx.Err() != nil {
		return err
	}
	return TooSlow(err, limit)
}

// A Queryer is a [*pgx.Conn], a [pgx.Tx] or a [*pgxpool.Pool].
type Queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}
