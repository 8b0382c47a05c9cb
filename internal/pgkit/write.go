package pgkit

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// Row sends one statement as a transaction of its own, at READ COMMITTED, in
// one round trip. It returns the row that the statement returns, and false if it
// returns none. Errors are those of [Do].
func Row[T any](ctx context.Context, w *Writer, st Statement, scan pgx.RowToFunc[T]) (T, bool, error) {
	type found struct {
		row T
		ok  bool
	}
	f, err := Do(ctx, w, func(ctx context.Context, conn *pgx.Conn) (f found, err error) {
		f.row, err = alone(ctx, conn, st, func(rows pgx.Rows) (T, error) { return pgx.CollectOneRow(rows, scan) })
		if errors.Is(err, pgx.ErrNoRows) {
			return f, nil
		}
		f.ok = err == nil
		return f, err
	})
	return f.row, f.ok, err
}

// Rows is [Row] for a statement that returns any number of rows.
func Rows[T any](ctx context.Context, w *Writer, st Statement, scan pgx.RowToFunc[T]) ([]T, error) {
	return Do(ctx, w, func(ctx context.Context, conn *pgx.Conn) ([]T, error) {
		return alone(ctx, conn, st, func(rows pgx.Rows) ([]T, error) { return pgx.CollectRows(rows, scan) })
	})
}

// Exec is [Row] for a statement of which only the number of rows is wanted.
func Exec(ctx context.Context, w *Writer, st Statement) (int64, error) {
	return Do(ctx, w, func(ctx context.Context, conn *pgx.Conn) (int64, error) {
		return alone(ctx, conn, st, func(rows pgx.Rows) (int64, error) {
			rows.Close()
			return rows.CommandTag().RowsAffected(), rows.Err()
		})
	})
}

// alone sends st as a transaction of its own, at READ COMMITTED, and hears whether a standby
// confirmed it. A statement that sees to both by itself goes as it is.
func alone[T any](ctx context.Context, conn *pgx.Conn, st Statement, collect func(pgx.Rows) (T, error)) (T, error) {
	if err := st.Err(); err != nil {
		var none T
		return none, err
	}
	if hears(st.SQL) && sessionOf(conn.PgConn()).readCommitted {
		return named(ctx, conn, func() (T, error) { return send(ctx, conn, st, collect) }, st.SQL)
	}
	return heard(ctx, conn, st, collect)
}

// heard is alone for a statement that needs others around it.
func heard[T any](ctx context.Context, conn *pgx.Conn, st Statement, collect func(pgx.Rows) (T, error)) (T, error) {
	var value T
	empty := false
	parts := []part{{Statement{SQL: Hear}, skip}, {st, func(rows pgx.Rows) (err error) {
		value, err = collect(rows)
		empty = errors.Is(err, pgx.ErrNoRows)
		if empty { // else the batch ends before the commit is read
			return nil
		}
		return err
	}}}
	err := together(ctx, conn, parts)
	if err == nil && empty {
		err = pgx.ErrNoRows
	}
	return value, err
}

// A part is one statement of several, with the function that reads its rows.
type part struct {
	Statement

	read func(pgx.Rows) error
}

func skip(rows pgx.Rows) error {
	rows.Close()
	return rows.Err()
}

// together sends the parts in one round trip, as one READ COMMITTED transaction. Without a block
// around them the server treats the statements before a sync as one transaction.
func together(ctx context.Context, conn *pgx.Conn, parts []part) error {
	statements := make([]string, len(parts))
	for i, p := range parts {
		if err := p.Err(); err != nil {
			return err
		}
		statements[i] = p.SQL
	}
	_, err := named(ctx, conn, func() (struct{}, error) { return struct{}{}, sendTogether(ctx, conn, parts) }, statements...)
	return err
}

func sendTogether(ctx context.Context, conn *pgx.Conn, parts []part) error {
	block := sessionOf(conn.PgConn()).needsBlock()
	batch := new(pgx.Batch)
	if block {
		batch.Queue("begin isolation level read committed")
	}
	for _, setting := range settingsOf(parts) {
		batch.Queue(setting)
	}
	for _, p := range parts {
		batch.Queue(p.SQL, p.Args...).Query(p.read)
	}
	if block {
		batch.Queue("commit")
	}
	return committed(conn.SendBatch(ctx, batch))
}

// settingsOf returns the settings of the first part that has any. The parts of one transaction have the
// same.
func settingsOf(parts []part) []string {
	for _, p := range parts {
		if len(p.settings) > 0 {
			return p.settings
		}
	}
	return nil
}

// committed ends a batch whose last message commits it.
func committed(results pgx.BatchResults) error {
	err := results.Close()
	if IsUnsent(err) {
		return Unsent(err)
	}
	return err
}

// IsUnsent reports whether err is of a batch that pgx gave up before it sent the sync, and with it the commit.
func IsUnsent(err error) bool {
	var unsent pgx.ErrPreprocessingBatch
	return errors.As(err, &unsent)
}

// Unsent marks the error of a write that came before its commit was sent: the error says that nothing became durable,
// also if it does not look like that.
func Unsent(err error) error { return &nothingChanged{err} }

// Tx runs body in a READ COMMITTED transaction and commits it. If body returns
// an error the transaction is rolled back, and Tx returns that error: nothing
// became durable. Other errors are those of [Do].
//
// body gets a ctx that does not end, and must not commit.
func Tx[T any](ctx context.Context, w *Writer, body func(context.Context, pgx.Tx) (T, error)) (T, error) {
	return txWith(ctx, w, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, body)
}

func txWith[T any](ctx context.Context, w *Writer, options pgx.TxOptions, body func(context.Context, pgx.Tx) (T, error)) (T, error) {
	return Do(ctx, w, func(ctx context.Context, conn *pgx.Conn) (T, error) {
		var none T
		tx, err := conn.BeginTx(ctx, options)
		if err != nil {
			return none, &nothingChanged{err}
		}
		value, err := body(ctx, tx)
		if err != nil {
			return none, &nothingChanged{err}
		}
		return value, Commit(ctx, conn)
	})
}
