package pgkit

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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
		err = sendTogether(ctx, conn, []part{
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
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	return named(ctx, conn.Conn(), func() (found []T, err error) {
		batch := new(pgx.Batch)
		batch.Queue(settings.SQL, settings.Args...).Query(skip)
		batch.Queue(st.SQL, st.Args...).Query(func(rows pgx.Rows) error {
			found, err = pgx.CollectRows(rows, scan)
			return err
		})
		return found, conn.SendBatch(ctx, batch).Close()
	}, settings.SQL, st.SQL)
}
