package gormledger

import (
	"context"
	"database/sql"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/fanonce/fanonce/server/pgstore"
)

// Open returns a *gorm.DB over a pool of database/sql. GORM reads each model once for it, so a service opens one. It
// sends nothing.
func Open(pool *sql.DB) (*gorm.DB, error) {
	return gorm.Open(postgres.New(postgres.Config{Conn: pool}), &gorm.Config{
		// GORM would print statements with their values.
		Logger: logger.Discard, DisableAutomaticPing: true,
	})
}

// Join returns base for the run that ctx belongs to. All that is done with it is done in the transaction of the run.
//
// GORM opens a transaction for each write if it is not told that there is one. It is: its pool is the *sql.Tx. Begin
// fails for the same reason, and Transaction makes a savepoint.
func Join(ctx context.Context, base *gorm.DB) (*gorm.DB, error) {
	tx, err := pgstore.SQLTx(ctx)
	if err != nil {
		return nil, err
	}
	joined := base.Session(&gorm.Session{Context: ctx, NewDB: true, SkipDefaultTransaction: true})
	joined.Statement.ConnPool = tx
	return joined, nil
}
