// Package outbox publishes messages that belong to a database transaction. The message is written in the transaction
// of the work: it exists if the work does. A relay sends it to a broker, at least once, and in order for each aggregate.
// The consumer deduplicates by the message's key, as package inbox does. Together they have the effect of each message
// once.
//
//	box, err := outbox.New(outbox.Config{})
//	…
//	err = box.Write(ctx, outbox.Message{Topic: "orders", Aggregate: order.ID, Payload: payload}) // in a guarded handler
//
// [Migrate] creates the tables, also on the coordinator of a Citus ([Distribute]). A service runs a [Relay] beside its handlers, or in processes of its own. Relays share
// the work: each has a lease on some of 32 lanes, and an aggregate is always in the same lane.
//
//	relay, err := box.NewRelay(pool, outbox.RelayConfig{Publish: publish})
//	…
//	go relay.Run(ctx)
//
// A [Reader] shows the messages that wait to people.
//
// # Order
//
// Messages of one aggregate are published in the order of their commits. To make that true, [Outbox.Write] locks the
// aggregate to the end of the transaction. A message that the broker does not take holds back the later ones of its
// aggregate, and no others. After a crash, or if a relay was stopped for longer than its lease, some messages are
// published again. Even then the first copy of each comes in order: a consumer that drops duplicates sees the order of
// the commits. Messages without an aggregate have no order, and take no lock.
//
// # Cost
//
// In a guarded handler a message travels with the answer: no further round trip, and one more row. The relay asks the
// database once per PollInterval, and deletes a batch with one statement. Its statements need no durable commit of
// their own: a message that is published twice does no harm. The package imports no broker's client.
package outbox
