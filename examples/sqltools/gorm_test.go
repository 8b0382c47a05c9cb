package sqltools_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/fanonce/fanonce/examples/sqltools"
	"github.com/fanonce/fanonce/examples/sqltools/gormledger"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// newBase returns what runs join from, over a pool that is not the store's.
func newBase(t *testing.T, pool *pgxpool.Pool, change gorm.Config) *gorm.DB {
	t.Helper()
	own := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, own.Close()) })
	change.Logger = logger.Discard
	base, err := gorm.Open(postgres.New(postgres.Config{Conn: own}), &change)
	require.NoError(t, err)
	return base
}

// runGORM runs body once under a key, with a joined handle.
func runGORM(t *testing.T, pool *pgxpool.Pool, base *gorm.DB, body func(db *gorm.DB) error) answer {
	t.Helper()
	url := serve(t, pool, pgstore.Config{}, func(ctx context.Context, _ sqltools.Booking) (out sqltools.Receipt, err error) {
		db, err := gormledger.Join(ctx, base)
		if err != nil {
			return out, err
		}
		return out, body(db)
	})
	return send(t, url, "k", sqltools.Booking{})
}

// GORM's own ways to begin a transaction fail in a run. Its pool, which DB digs out, is the run's connection.
func TestGORM_beginsNoTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, migrate)
	got := runGORM(t, pool, newBase(t, pool, gorm.Config{}), func(db *gorm.DB) error {
		require.ErrorIs(t, db.Begin().Error, gorm.ErrInvalidTransaction)
		dug, err := db.DB()
		require.NoError(t, err)
		tx, err := dug.Begin()
		require.NoError(t, err)
		_, err = tx.Exec("insert into entry (account, cents) values ('ann', 1)")
		require.NoError(t, err)
		require.ErrorIs(t, tx.Commit(), pgstore.ErrTxOwned)
		return errNo
	})
	require.Equal(t, 500, got.status)
	requireLedger(t, pool, "ann", 100)
}

// A base that prepares statements can be joined: in a run it does not prepare. A session of the run that prepares would
// keep statements of a connection that the next run does not have.
func TestGORM_preparedStatements(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, migrate)
	base := newBase(t, pool, gorm.Config{PrepareStmt: true})
	require.NoError(t, base.Create(&gormledger.Entry{Account: "bob", Cents: 9}).Error) // prepares the same statement
	url := serve(t, pool, pgstore.Config{}, gormledger.Ledger{Base: base}.Book)
	require.Equal(t, 200, send(t, url, "k1", sqltools.Booking{Account: "ann", Cents: 5}).status)
	require.Equal(t, 200, send(t, url, "k2", sqltools.Booking{Account: "ann", Cents: 6}).status)
	requireLedger(t, pool, "ann", 111, 5, 6)

	got := runGORM(t, pool, base, func(db *gorm.DB) error {
		err := db.Session(&gorm.Session{PrepareStmt: true}).Create(&gormledger.Entry{Account: "ann", Cents: 7}).Error
		require.ErrorContains(t, err, "statement from different database")
		return err
	})
	require.Equal(t, 500, got.status)
	requireLedger(t, pool, "ann", 111, 5, 6)
}

// hooked is an entry whose hook writes another one, or fails.
type hooked struct {
	ID      int64
	Account string
	Cents   int64
}

func (hooked) TableName() string { return "entry" }

func (h *hooked) AfterCreate(tx *gorm.DB) error {
	if err := tx.Create(&gormledger.Entry{Account: "bob", Cents: -h.Cents}).Error; err != nil || h.Cents > 0 {
		return err
	}
	return errNo
}

// The rows of hooks are part of the run.
func TestGORM_hooks(t *testing.T) {
	t.Parallel()
	for cents, want := range map[int64]int{5: 200, -5: 500} {
		pool := pgtest.NewPool(t, migrate)
		got := runGORM(t, pool, newBase(t, pool, gorm.Config{}), func(db *gorm.DB) error {
			return db.Create(&hooked{Account: "ann", Cents: cents}).Error
		})
		require.Equal(t, want, got.status)
		if want == 200 {
			requireLedger(t, pool, "ann", 100, 5)
			requireLedger(t, pool, "bob", 100, -5)
			continue
		}
		requireLedger(t, pool, "ann", 100)
		requireLedger(t, pool, "bob", 100)
	}
}

// GORM's Transaction takes back a refused statement, and the handler goes on.
func TestGORM_transactionAfterRefusedStatement(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, migrate)
	got := runGORM(t, pool, newBase(t, pool, gorm.Config{TranslateError: true}), func(db *gorm.DB) error {
		err := db.Transaction(func(tx *gorm.DB) error {
			return tx.Create(&gormledger.Account{Name: "ann"}).Error
		})
		if !errors.Is(err, gorm.ErrDuplicatedKey) {
			return err
		}
		return db.Create(&gormledger.Entry{Account: "ann", Cents: 1}).Error
	})
	require.Equal(t, 200, got.status)
	requireLedger(t, pool, "ann", 100, 1)
}

// The base itself is outside of the run: its rows stay when the run fails. This is why a handler joins.
func TestGORM_baseIsNotTheRun(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, migrate)
	base := newBase(t, pool, gorm.Config{})
	got := runGORM(t, pool, base, func(db *gorm.DB) error {
		require.NoError(t, base.Create(&gormledger.Entry{Account: "bob", Cents: 1}).Error)
		require.NoError(t, db.Create(&gormledger.Entry{Account: "ann", Cents: 1}).Error)
		return errNo
	})
	require.Equal(t, 500, got.status)
	requireLedger(t, pool, "ann", 100)
	requireLedger(t, pool, "bob", 100, 1)
}
