package sqltools_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/fanonce/fanonce/examples/integrations/sqltools"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// joinGORM returns base for the run that ctx belongs to. GORM would begin a transaction for each write if it did not know
// that there is one already, and its own Transaction makes a savepoint.
func joinGORM(ctx context.Context, base *gorm.DB) (*gorm.DB, error) {
	tx, err := pgstore.SQLTx(ctx)
	if err != nil {
		return nil, err
	}
	joined := base.Session(&gorm.Session{Context: ctx, NewDB: true, SkipDefaultTransaction: true})
	joined.Statement.ConnPool = tx
	return joined, nil
}

// gormEntry is a row of the table entry.
type gormEntry struct {
	ID      int64
	Account string
	Cents   int64
}

func (gormEntry) TableName() string { return "entry" }

// GORM writes in the transaction of the run. The first run fails after its write, and leaves no row. In each run a
// transaction of GORM's own is refused and taken back, and the handler goes on.
func TestGORM(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, migrate)
	own := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, own.Close()) })
	base, err := gorm.Open(postgres.New(postgres.Config{Conn: own}), &gorm.Config{Logger: logger.Discard}) // the default prints values
	require.NoError(t, err)
	failure := errNo
	url := serve(t, pool, pgstore.Config{}, func(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
		db, err := joinGORM(ctx, base)
		if err != nil {
			return out, err
		}
		if err := db.Transaction(func(tx *gorm.DB) error { return tx.Create(&gormEntry{Account: "nobody"}).Error }); err == nil {
			t.Error("an entry of no account was written")
		}
		failing := failure
		failure = nil
		return out, errors.Join(db.Create(&gormEntry{Account: in.Account, Cents: in.Cents}).Error, failing)
	})
	for _, want := range []int{500, 200, 200} { // the third is a replay
		require.Equal(t, want, send(t, url, "k", sqltools.Booking{Account: "ann", Cents: 5}).status)
	}
	requireLedger(t, pool, "ann", 100, 5)
}
