package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/outbox"
)

// A broker carries the payments.
type broker struct {
	// publish is an [outbox.RelayConfig].Publish.
	publish func(ctx context.Context, batch []outbox.Message) []error
	// consume books messages until ctx ends. It finishes those that it has begun. The error is ctx's, or the broker's.
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
