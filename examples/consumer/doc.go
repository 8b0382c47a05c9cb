// Package consumer is a ledger that books payments from a broker, each one once. The broker delivers a message again
// after a crash, or twice at the same time. The ledger books it once.
//
// Book is the work, and knows no broker. NATS and Kafka are the adapters: each is one loop over package inbox. PublishNATS
// and PublishKafka are the other half, for a relay of package outbox.
//
//	box, err := consumer.NewInbox(guard, deadLetter)
//	…
//	err = consumer.NATS(ctx, stream, box)
package consumer
