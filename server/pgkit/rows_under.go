package pgkit

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// RowsUnder is [Rows] with settings in front of st, such as a lock timeout. Both go
// in one round trip and in one transaction. The rows of settings are dropped. A
// setting must end with the transaction.
func RowsUnder[T any](ctx context.Context, w *Writer, settings, st Statement, scan pgx.RowToFunc[T]) ([]T, error) {
	return Do(ctx, w, func(ctx context.Context, conn *pgx.Conn) (found []T, err error) {
		err = together(ctx, conn, []part{
			{Statement: settings, read: skip},
			{Statement: st, read: func(rows pgx.Rows) error {
				found, err = pgx.CollectRows(rows, scan)
				return err
			}},
		})
		return found, err
	})
}
