package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A Payment is the payload of a message.
type Payment struct {
	ID      string
	Account string
	Cents   int64
}

// book writes the payment of a message. Its row is committed together with the record that says that the message was
// handled.
func book(ctx context.Context, payload []byte) error {
	var p Payment
	if err := json.Unmarshal(payload, &p); err != nil {
		return fmt.Errorf("not a payment: %w", err) // an attempt that failed; the last one makes it a dead letter
	}
	if p.ID == "" || p.Account == "" || p.Cents <= 0 {
		return fmt.Errorf("no such payment: %+v", p)
	}
	return pgstore.Queue(ctx, "insert into entry values ($1, $2, $3)", p.ID, p.Account, p.Cents)
}

// newInbox returns the inbox of the ledger. The cause of a dead letter is in a row. The message itself goes to the
// broker's place for dead letters: the adapters see to that.
func newInbox(guard *server.Guard) (*inbox.Inbox, error) {
	return inbox.New(guard, inbox.Config{
		Consumer: "ledger", Effect: server.Transactional, MaxAttempts: maxAttempts,
		DeadLetter: func(ctx context.Context, m inbox.Message, cause error) error {
			return pgstore.Queue(ctx, "insert into dead_letter values ($1, $2, $3)", m.Source, m.ID, cause.Error())
		},
	})
}

// maxAttempts counts killed processes, too.
const maxAttempts = 5

// ledger books payments until ctx ends.
func ledger(ctx context.Context, o *options) error {
	return o.withGuard(ctx, "", func(_ *pgxpool.Config, guard *server.Guard) error {
		box, err := newInbox(guard)
		if err != nil {
			return err
		}
		from, err := o.connect(ctx)
		if err != nil {
			return err
		}
		defer from.close()
		fmt.Fprintln(o.out, "ready")
		return from.consume(ctx, box)
	})
}

// A verdict tells a broker what to do with a message.
type verdict int

const (
	again verdict = iota // deliver it again
	done
	dead // put it where the dead letters are
)

// handle books a message once. The pause is what the broker should wait before it delivers the message again.
func handle(ctx context.Context, box *inbox.Inbox, m inbox.Message) (v verdict, pause time.Duration, err error) {
	delivery, err := box.Handle(context.WithoutCancel(ctx), m, book) // the guard logs its errors
	switch {
	case delivery.Result == inbox.Dead:
		return dead, 0, err
	case delivery.Ack():
		return done, 0, nil
	default:
		return again, delivery.Pause, err
	}
}

// insist handles a message until it is done or dead, or ctx ends. It is for brokers that cannot deliver one message
// again later.
func insist(ctx context.Context, box *inbox.Inbox, m inbox.Message) (verdict, error) {
	for {
		v, pause, err := handle(ctx, box, m)
		if v != again || !sleep(ctx, pause) {
			return v, err
		}
	}
}

// sleep reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
