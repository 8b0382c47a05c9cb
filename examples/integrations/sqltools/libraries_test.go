package sqltools_test

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/examples/integrations/sqltools"
	"github.com/fanonce/fanonce/examples/integrations/sqltools/sqlcledger"
	"github.com/fanonce/fanonce/examples/integrations/sqltools/sqlcledger/pgxdb"
	"github.com/fanonce/fanonce/examples/integrations/sqltools/sqlcledger/sqldb"
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

// libraries has the ledgers by name.
var libraries = map[string]library{"sqlc-pgx": sqlcPgx, "sqlc-sql": sqlcSQL}

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
