package sqlcledger

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/examples/integrations/sqltools"
	"github.com/fanonce/fanonce/examples/integrations/sqltools/sqlcledger/pgxdb"
	"github.com/fanonce/fanonce/server/pgstore"
)

// BookPgx is a Transactional handler with sqlc's code for pgx.
func BookPgx(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
	db := pgxdb.New(pgstore.Tx(ctx))
	balance, err := db.LockAccount(ctx, in.Account)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return out, sqltools.NotFound(in.Account)
	case err != nil:
		return out, err
	case balance+in.Cents < 0:
		return out, sqltools.Refused(balance)
	}
	out.Balance = balance + in.Cents
	if err := db.SetBalance(ctx, pgxdb.SetBalanceParams{Name: in.Account, Cents: out.Balance}); err != nil {
		return out, err
	}
	out.Entry, err = db.InsertEntry(ctx, pgxdb.InsertEntryParams{Account: in.Account, Cents: in.Cents})
	return out, err
}
