package sqltools

import (
	_ "embed" // for Schema
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
)

// Schema is schema.sql: the statements that create the ledger's tables.
//
//go:embed schema.sql
var Schema string

// A Booking adds Cents to the balance of Account, or takes them away.
type Booking struct {
	Account string
	Cents   int64
}

// A Receipt is the answer to a [Booking].
type Receipt struct {
	Entry   int64 // the number of the row
	Balance int64 // afterwards
}

// Book is the operation that each ledger serves.
var Book = contract.Post[Booking, Receipt]("ledger", "book", "/bookings")

// NotFound is the answer to a booking of an account that does not exist.
func NotFound(account string) error {
	return &server.StatusError{Status: http.StatusNotFound, Code: "no-such-account", Err: fmt.Errorf("account %q", account)}
}

// Refused is the answer to a booking that the balance does not allow.
func Refused(balance int64) error {
	return &server.StatusError{Status: http.StatusUnprocessableEntity, Code: "not-enough", Err: fmt.Errorf("balance %d", balance)}
}
