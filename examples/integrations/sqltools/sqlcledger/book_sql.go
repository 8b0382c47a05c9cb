package sqlcledger

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fanonce/fanonce/examples/integrations/sqltools"
	"github.com/fanonce/fanonce/examples/integrations/sqltools/sqlcledger/sqldb"
	"github.com/fanonce/fanonce/server/pgstore"
)

// BookSQL is a Transactional handler with sqlc's code for database/sql.
func BookSQL(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
	tx, err := pgstore.SQLTx(ctx)
	if err != nil {
		return out, err
	}
	db := sqldb.New(tx)
	balance, err := db.LockAccount(ctx, in.Account)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return out, sqltools.NotFound(in.Account)
	case err != nil:
		return out, err
	case balance+in.Cents < 0:
		return out, sqltools.Refused(balance)
	}
	out.Balance = balance + in.Cents
	if err := db.SetBalance(ctx, sqldb.SetBalanceParams{Name: in.Account, Cents: out.Balance}); err != nil {
		return out, err
	}
	out.Entry, err = db.InsertEntry(ctx, sqldb.InsertEntryParams{Account: in.Account, Cents: in.Cents})
	return out, err
}
