package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// book is the consumer's work. Its row is committed with the record that says that the message was handled.
func book(ctx context.Context, payload []byte) error {
	cents, err := strconv.Atoi(string(payload))
	if err != nil {
		return err // counted as an attempt; the transaction is rolled back
	}
	_, err = pgstore.Tx(ctx).Exec(ctx, "insert into entry values ($1)", cents)
	return err
}

// keep stores a message that no attempt could handle, where a person will see it.
func keep(_ context.Context, m inbox.Message, cause error) error {
	fmt.Println("dead letter:", m.ID, cause)
	return nil // an error leaves the message with the broker
}

func consume(ctx context.Context, pool *pgxpool.Pool, deliveries []inbox.Message) (err error) {
	if err := pgstore.Migrate(ctx, pool, ""); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "create table entry (cents int not null)"); err != nil {
		return err
	}
	cfg := pgstore.Config{AllowNonDurable: true} // the example's server runs without fsync
	store, err := pgstore.Open(ctx, pool.Config(), cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	// A consumer has no callers. The messages of one broker share the scope.
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guard.Shutdown(ctx)) }()
	payments, err := inbox.New(guard, inbox.Config{
		Consumer: "ledger", Effect: server.Transactional, MaxAttempts: 2, DeadLetter: keep,
	})
	if err != nil {
		return err
	}
	for _, m := range deliveries {
		delivery, err := payments.Handle(ctx, m, book)
		fmt.Println(m.ID, delivery, "acknowledge:", delivery.Ack(), err)
	}
	return nil
}

// A whole consumer on Postgres. The broker delivers the first message twice. The second one can never be handled.
func Example() {
	ctx := context.Background()
	postgres, err := pgtest.Start(ctx, pgtest.Config{Private: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer postgres.Stop()
	pool, err := pgxpool.New(ctx, postgres.URL("postgres"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	paid := inbox.Message{Source: "payments", ID: "0/17", Payload: []byte("4200")}
	broken := inbox.Message{Source: "payments", ID: "0/18", Payload: []byte("?")}
	if err := consume(ctx, pool, []inbox.Message{paid, paid, broken, broken}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 0/17 ran acknowledge: true <nil>
	// 0/17 duplicate acknowledge: true <nil>
	// 0/18 failed acknowledge: false strconv.Atoi: parsing "?": invalid syntax
	// dead letter: 0/18 strconv.Atoi: parsing "?": invalid syntax
	// 0/18 dead acknowledge: true strconv.Atoi: parsing "?": invalid syntax
}
