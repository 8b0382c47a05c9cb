package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/fanonce/fanonce/server/inbox"
)

// A Message carries one payment to the ledgers.
type Message struct {
	Key     string // names the message. All copies of it have the same key, and the inbox drops them
	Topic   string
	Account string // for brokers with partitions
	Payload []byte
	// Trace is that of the run that wrote the message. The broker carries it in headers of these names.
	Trace map[string]string `json:",omitempty"`
}

// A broker carries the payments.
type broker struct {
	// publish returns nil when the broker has stored the message. Several goroutines may call it at the same time.
	publish func(ctx context.Context, m Message) error
	// consume books messages until ctx ends, and finishes those that it has begun. It returns the error of ctx, or of
	// the broker.
	consume func(ctx context.Context, box *inbox.Inbox) error
	close   func()
}

// workers is how many messages a ledger books at the same time.
const workers = 16

const (
	group      = "ledger" // the consumer's name at the broker
	deadSuffix = ".dead"  // of the place for dead letters
	// causeHeader says why a message is a dead letter. A copy of the letter may be without it.
	causeHeader = "Dead-Letter-Cause"
)

// connect opens the broker, and makes what the payments need there.
func (o *options) connect(ctx context.Context) (*broker, error) {
	scheme, rest, _ := strings.Cut(o.broker, "://")
	var b *broker
	var err error
	switch scheme {
	case "nats", "tls":
		b, err = connectNATS(ctx, o)
	case "kafka":
		b, err = connectKafka(strings.Split(rest, ","), o)
	case "amqp", "amqps":
		b, err = connectRabbitMQ(ctx, o)
	default:
		err = fmt.Errorf("no broker has the scheme %q", scheme)
	}
	if err != nil {
		return nil, fmt.Errorf("-broker: %w", err)
	}
	return b, nil
}

// causeOf is the text of err, or "".
func causeOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
