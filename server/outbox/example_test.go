package outbox_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server/outbox"
	"github.com/fanonce/fanonce/server/pgtest"
)

// publish stands for a broker's client. It sends the batch, and waits for the acknowledgements. The key is the
// message's ID: Nats-Msg-Id for JetStream, the message-id property for RabbitMQ, a header for Kafka. The consumer gives
// it to package inbox.
func publish(_ context.Context, batch []outbox.Message) []error {
	for _, m := range batch {
		fmt.Printf("%s: %s\n", m.Topic, m.Payload)
	}
	return nil // the broker has all of them
}

// An order and its message are committed together, and a relay publishes the message.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	postgres, err := pgtest.Start(ctx, pgtest.Config{Private: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = postgres.Stop() }()
	pool, err := pgxpool.New(ctx, postgres.URL("postgres"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	if err := place(ctx, pool); err != nil {
		fmt.Println(err)
	}
	// Output:
	// orders: {"id": 42}
}

func place(ctx context.Context, pool *pgxpool.Pool) error {
	if err := outbox.Migrate(ctx, pool, ""); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "create table orders (id int primary key)"); err != nil {
		return err
	}
	box, err := outbox.New(outbox.Config{})
	if err != nil {
		return err
	}
	// In a guarded handler it is box.Write(ctx, message), without a transaction to begin.
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into orders values (42)"); err != nil {
			return err
		}
		_, err := box.WriteTx(ctx, tx, outbox.Message{Topic: "orders", Aggregate: "order-42", Payload: []byte(`{"id": 42}`)})
		return err
	})
	if err != nil {
		return err
	}
	published := make(chan struct{})
	relay, err := box.NewRelay(pool, outbox.RelayConfig{Publish: func(ctx context.Context, batch []outbox.Message) []error {
		defer close(published)
		return publish(ctx, batch)
	}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		relay.Run(ctx) // a service lets it run as long as the process
	}()
	<-published
	stop()
	<-done
	return nil
}
