package sqltools_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/integrations/sqltools"
	"github.com/fanonce/fanonce/examples/integrations/sqltools/sqlcledger"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// booked is a saga that follows a booking.
var booked = saga.MustDefine("booked", 1, func(b *saga.Builder[sqltools.Booking, sqltools.Receipt]) {
	step := saga.Step(b, sqltools.Book, b.Input()).Pivot()
	saga.Return(b, step.Output())
})

func migrateAll(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	for _, step := range []func(context.Context, *pgxpool.Pool, string) error{migrate, pgjournal.Migrate} {
		if err := step(ctx, pool, schema); err != nil {
			return err
		}
	}
	return nil
}

// A row of sqlc's and the start of a saga are one commit, or neither of them is there.
func TestTogether(t *testing.T) {
	t.Parallel()
	for failure, want := range map[error]int{nil: 1, errNo: 0} {
		pool := pgtest.NewPool(t, migrateAll)
		url := serve(t, pool, pgstore.Config{}, func(ctx context.Context, in sqltools.Booking) (sqltools.Receipt, error) {
			out, err := sqlcledger.BookSQL(ctx, in)
			if err != nil {
				return out, err
			}
			tx, err := pgstore.SQLTx(ctx)
			if err != nil {
				return out, err
			}
			key, _ := childkey.FromContext(ctx)
			if _, err := pgjournal.StartSQL(ctx, tx, booked, key, in, pgjournal.StartConfig{}); err != nil {
				return out, err
			}
			return out, failure
		})
		send(t, url, "k", sqltools.Booking{Account: "ann", Cents: 5})
		var rows, sagas int
		require.NoError(t, pool.QueryRow(t.Context(), "select (select count(*) from entry), (select count(*) from saga)").Scan(&rows, &sagas))
		require.Equal(t, []int{want, want}, []int{rows, sagas})
	}
}
