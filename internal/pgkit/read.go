package pgkit

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// One sends a statement that changes nothing, and returns its first row; without a
// row, an error wrapping [pgx.ErrNoRows].
func One[T any](ctx context.Context, db Queryer, st Statement, scan pgx.RowToFunc[T]) (T, error) {
	return look(ctx, db, st, func(rows pgx.Rows) (T, error) { return pgx.CollectOneRow(rows, scan) })
}

// All is [One] for all rows. Without any it returns an empty slice.
func All[T any](ctx context.Context, db Queryer, st Statement, scan pgx.RowToFunc[T]) ([]T, error) {
	return look(ctx, db, st, func(rows pgx.Rows) ([]T, error) { return pgx.CollectRows(rows, scan) })
}

func look[T any](ctx context.Context, db Queryer, st Statement, collect func(pgx.Rows) (T, error)) (T, error) {
	var none T
	if err := st.Err(); err != nil {
		return none, err
	}
	pool, ok := db.(*pgxpool.Pool)
	if !ok { // a transaction, or a connection that is somebody else's
		return send(ctx, db, st, collect)
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return none, err
	}
	defer conn.Release()
	return named(ctx, conn.Conn(), func() (T, error) { return send(ctx, conn.Conn(), st, collect) }, st.SQL)
}

func send[T any](ctx context.Context, db Queryer, st Statement, collect func(pgx.Rows) (T, error)) (T, error) {
	rows, err := db.Query(ctx, st.SQL, st.Args...)
	if err != nil {
		var none T
		return none, err
	}
	return collect(rows)
}
