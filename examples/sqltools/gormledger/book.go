package gormledger

import (
	"context"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/fanonce/fanonce/examples/sqltools"
)

// An Account is a row of the table account.
type Account struct {
	Name  string `gorm:"primaryKey"`
	Cents int64
}

// TableName is for GORM.
func (Account) TableName() string { return "account" }

// An Entry is a row of the table entry.
type Entry struct {
	ID      int64
	Account string
	Cents   int64
}

// TableName is for GORM.
func (Entry) TableName() string { return "entry" }

// A Ledger books with GORM.
type Ledger struct{ Base *gorm.DB }

// Book is a Transactional handler.
func (l Ledger) Book(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
	db, err := Join(ctx, l.Base)
	if err != nil {
		return out, err
	}
	var account Account
	err = db.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&account, "name = ?", in.Account).Error
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return out, sqltools.NotFound(in.Account)
	case err != nil:
		return out, err
	case account.Cents+in.Cents < 0:
		return out, sqltools.Refused(account.Cents)
	}
	account.Cents += in.Cents
	if err := db.Model(&account).Update("cents", account.Cents).Error; err != nil {
		return out, err
	}
	entry := Entry{Account: in.Account, Cents: in.Cents}
	err = db.Create(&entry).Error
	return sqltools.Receipt{Entry: entry.ID, Balance: account.Cents}, err
}
