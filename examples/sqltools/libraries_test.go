package sqltools_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/fanonce/fanonce/examples/sqltools"
	"github.com/fanonce/fanonce/examples/sqltools/entledger"
	"github.com/fanonce/fanonce/examples/sqltools/entledger/ent"
	"github.com/fanonce/fanonce/examples/sqltools/gormledger"
	"github.com/fanonce/fanonce/examples/sqltools/sqlcledger"
	"github.com/fanonce/fanonce/examples/sqltools/sqlcledger/pgxdb"
	"github.com/fanonce/fanonce/examples/sqltools/sqlcledger/sqldb"
	"github.com/fanonce/fanonce/server/pgstore"
)

// insert writes one entry.
type insert func(account string, cents int64) error

// A library is one of the ledgers, and what a user of its library may do in a handler.
type library struct {
	book func(ctx context.Context, in sqltools.Booking) (sqltools.Receipt, error)
	// join returns the library's handle in the run, as a function.
	join func(ctx context.Context) (insert, error)
	// nested calls body in a transaction of the library's own, which ends as body says.
	nested func(ctx context.Context, body func(insert) error) error
	// commit tries to commit all that the run has done.
	commit func(ctx context.Context) error
	// late is the error of a handle that outlived its run.
	late error
}

// libraries has the ledgers by name. The pool is for a library that needs one beside the run.
var libraries = map[string]func(tb testing.TB, pool *pgxpool.Pool) library{
	"sqlc-pgx": func(testing.TB, *pgxpool.Pool) library { return sqlcPgx },
	"sqlc-sql": func(testing.TB, *pgxpool.Pool) library { return sqlcSQL },
	"gorm": func(tb testing.TB, pool *pgxpool.Pool) library {
		tb.Helper()
		own := stdlib.OpenDBFromPool(pool)
		tb.Cleanup(func() { require.NoError(tb, own.Close()) })
		base, err := gormledger.Open(own)
		require.NoError(tb, err)
		return withGORM(base)
	},
	"ent": func(testing.TB, *pgxpool.Pool) library { return withEnt },
}

func insertPgx(ctx context.Context, tx pgx.Tx) insert {
	return func(account string, cents int64) error {
		_, err := pgxdb.New(tx).InsertEntry(ctx, pgxdb.InsertEntryParams{Account: account, Cents: cents})
		return err
	}
}

var sqlcPgx = library{
	book: sqlcledger.BookPgx,
	join: func(ctx context.Context) (insert, error) { return insertPgx(ctx, pgstore.Tx(ctx)), nil },
	nested: func(ctx context.Context, body func(insert) error) error {
		return pgx.BeginFunc(ctx, pgstore.Tx(ctx), func(tx pgx.Tx) error { return body(insertPgx(ctx, tx)) })
	},
	commit: func(ctx context.Context) error { return pgstore.Tx(ctx).Commit(ctx) },
	late:   pgstore.ErrTxEnded,
}

func joinSQL(ctx context.Context) (insert, error) {
	tx, err := pgstore.SQLTx(ctx)
	return func(account string, cents int64) error {
		_, err := sqldb.New(tx).InsertEntry(ctx, sqldb.InsertEntryParams{Account: account, Cents: cents})
		return err
	}, err
}

var sqlcSQL = library{
	book: sqlcledger.BookSQL,
	join: joinSQL,
	nested: func(ctx context.Context, body func(insert) error) error { // database/sql knows no savepoints
		tx, err := pgstore.SQLTx(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "savepoint mine"); err != nil {
			return err
		}
		insert, err := joinSQL(ctx)
		if err == nil {
			err = body(insert)
		}
		if err != nil {
			_, _ = tx.ExecContext(ctx, "rollback to savepoint mine")
		}
		return err
	},
	commit: func(ctx context.Context) error {
		tx, err := pgstore.SQLTx(ctx)
		if err != nil {
			return err
		}
		return tx.Commit()
	},
	late: sql.ErrTxDone,
}

func insertGORM(db *gorm.DB) insert {
	return func(account string, cents int64) error {
		return db.Create(&gormledger.Entry{Account: account, Cents: cents}).Error
	}
}

func withGORM(base *gorm.DB) library {
	return library{
		book: gormledger.Ledger{Base: base}.Book,
		join: func(ctx context.Context) (insert, error) {
			db, err := gormledger.Join(ctx, base)
			return insertGORM(db), err
		},
		nested: func(ctx context.Context, body func(insert) error) error {
			db, err := gormledger.Join(ctx, base)
			if err != nil {
				return err
			}
			return db.Transaction(func(tx *gorm.DB) error { return body(insertGORM(tx)) })
		},
		commit: func(ctx context.Context) error {
			db, err := gormledger.Join(ctx, base)
			if err != nil {
				return err
			}
			return db.Commit().Error
		},
		late: sql.ErrTxDone,
	}
}

func insertEnt(ctx context.Context, entries func() *ent.EntryClient) insert {
	return func(account string, cents int64) error {
		return entries().Create().SetAccountID(account).SetCents(cents).Exec(ctx)
	}
}

var withEnt = library{
	book: entledger.Book,
	join: func(ctx context.Context) (insert, error) {
		client, err := entledger.Join(ctx)
		return insertEnt(ctx, func() *ent.EntryClient { return client.Entry }), err
	},
	nested: func(ctx context.Context, body func(insert) error) error {
		client, err := entledger.Join(ctx)
		if err != nil {
			return err
		}
		tx, err := client.Tx(ctx)
		if err != nil {
			return err
		}
		if err := body(insertEnt(ctx, func() *ent.EntryClient { return tx.Entry })); err != nil {
			_ = tx.Rollback()
			return err
		}
		return tx.Commit()
	},
	commit: func(ctx context.Context) error { // only the transaction below ent's client has a Commit
		tx, err := pgstore.SQLTx(ctx)
		if err != nil {
			return err
		}
		return tx.Commit()
	},
	late: sql.ErrTxDone,
}
