package pgkit

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
)

// A UserTx is a transaction that a user began, of pgx or of database/sql.
type UserTx interface {
	// Insert reports whether the statement changed one row.
	Insert(ctx context.Context, st Statement) (inserted bool, err error)
	// Read scans the one row that the statement returns, and reports whether there is one.
	Read(ctx context.Context, st Statement, scan func(row Scanner) error) (found bool, err error)
}

// A Scanner is a row, see [pgx.Row].
type Scanner interface{ Scan(into ...any) error }

// PgxTx is a [UserTx] of pgx.
type PgxTx struct{ Tx pgx.Tx }

// Insert implements [UserTx].
func (t PgxTx) Insert(ctx context.Context, st Statement) (bool, error) {
	tag, err := t.Tx.Exec(ctx, st.SQL, st.Args...)
	return tag.RowsAffected() == 1, err
}

// Read implements [UserTx].
func (t PgxTx) Read(ctx context.Context, st Statement, scan func(row Scanner) error) (bool, error) {
	return one(scan(t.Tx.QueryRow(ctx, st.SQL, st.Args...)))
}

// SQLTx is a [UserTx] of database/sql, over pgx's driver.
type SQLTx struct{ Tx *sql.Tx }

// Insert implements [UserTx].
func (t SQLTx) Insert(ctx context.Context, st Statement) (bool, error) {
	result, err := t.Tx.ExecContext(ctx, st.SQL, st.Args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// Read implements [UserTx].
func (t SQLTx) Read(ctx context.Context, st Statement, scan func(row Scanner) error) (bool, error) {
	return one(scan(t.Tx.QueryRowContext(ctx, st.SQL, st.Args...)))
}

// one reports whether there was a row.
func one(err error) (bool, error) {
	if errors.Is(err, pgx.ErrNoRows) || errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
