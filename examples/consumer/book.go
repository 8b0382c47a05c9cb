package consumer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A Payment is what a message says.
type Payment struct {
	Account string
	Cents   int64
}

// CreateTables makes the ledger's table.
func CreateTables(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `create table if not exists entry (account text not null, cents bigint not null)`)
	return err
}

// Book writes the payment of a message. Its row is committed together with the record that says that the message was
// handled.
func Book(ctx context.Context, payload []byte) error {
	var p Payment
	if err := json.Unmarshal(payload, &p); err != nil {
		return fmt.Errorf("not a payment: %w", err) // an attempt that failed; the last one makes it a dead letter
	}
	if p.Account == "" || p.Cents <= 0 {
		return fmt.Errorf("no such payment: %+v", p)
	}
	return pgstore.Queue(ctx, "insert into entry (account, cents) values ($1, $2)", p.Account, p.Cents)
}

// NewInbox returns the inbox of the ledger. deadLetter gets the messages that no attempt could handle.
func NewInbox(guard *server.Guard, deadLetter func(ctx context.Context, m inbox.Message, cause error) error) (*inbox.Inbox, error) {
	return inbox.New(guard, inbox.Config{
		Consumer: "ledger", Effect: server.Transactional, MaxAttempts: 3, DeadLetter: deadLetter,
	})
}
