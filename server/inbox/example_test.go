package inbox_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/memstore"
)

func ExampleInbox() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	consumer, err := inbox.New(guard, inbox.Config{
		Consumer: "mails", Effect: server.Keyed, MaxAttempts: 2,
		DeadLetter: func(_ context.Context, m inbox.Message, cause error) error {
			fmt.Println("dead letter:", m.ID, cause)
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	deliver := func(id string, fails bool) {
		delivery, err := consumer.Handle(context.Background(), inbox.Message{Source: "orders", ID: id}, func(context.Context, []byte) error {
			if fails {
				return errors.New("no address")
			}
			return nil
		})
		fmt.Println(id, delivery, "ack:", delivery.Ack(), "error:", err)
	}
	deliver("1", false)
	deliver("1", false)
	deliver("2", true)
	deliver("2", true)
	// Output:
	// 1 ran ack: true error: <nil>
	// 1 duplicate ack: true error: <nil>
	// 2 failed ack: false error: no address
	// dead letter: 2 no address
	// 2 dead ack: true error: no address
}
