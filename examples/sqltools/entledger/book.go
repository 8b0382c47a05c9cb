package entledger

import (
	"context"

	"github.com/fanonce/fanonce/examples/sqltools"
	"github.com/fanonce/fanonce/examples/sqltools/entledger/ent"
	"github.com/fanonce/fanonce/examples/sqltools/entledger/ent/account"
)

// Book is a Transactional handler.
func Book(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
	db, err := Join(ctx)
	if err != nil {
		return out, err
	}
	found, err := db.Account.Query().Where(account.ID(in.Account)).ForUpdate().Only(ctx)
	switch {
	case ent.IsNotFound(err):
		return out, sqltools.NotFound(in.Account)
	case err != nil:
		return out, err
	case found.Cents+in.Cents < 0:
		return out, sqltools.Refused(found.Cents)
	}
	changed, err := found.Update().SetCents(found.Cents + in.Cents).Save(ctx)
	if err != nil {
		return out, err
	}
	entry, err := db.Entry.Create().SetAccount(changed).SetCents(in.Cents).Save(ctx)
	if err != nil {
		return out, err
	}
	return sqltools.Receipt{Entry: entry.ID, Balance: changed.Cents}, nil
}
