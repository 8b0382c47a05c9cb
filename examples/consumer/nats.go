package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/outbox"
)

// natsWorkers is how many messages are handled at the same time.
const natsWorkers = 16

// NATS books the messages of a JetStream consumer until ctx ends. The consumer acknowledges explicitly (AckExplicit).
// It returns ctx's error, or the broker's.
func NATS(ctx context.Context, from jetstream.Consumer, box *inbox.Inbox) error {
	messages, err := from.Messages(jetstream.PullMaxMessages(2 * natsWorkers))
	if err != nil {
		return fmt.Errorf("consumer: messages: %w", err)
	}
	stop := context.AfterFunc(ctx, messages.Stop)
	defer stop()
	defer messages.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	free := make(chan struct{}, natsWorkers)
	for {
		m, err := messages.Next()
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			handleNATS(ctx, m, box)
		})
	}
}

// handleNATS books one message. The broker hears of it only when the row is committed. A lost acknowledgement brings the
// message again, and the inbox knows it.
func handleNATS(ctx context.Context, m jetstream.Msg, box *inbox.Inbox) {
	delivery, _ := box.Handle(context.WithoutCancel(ctx), natsMessage(m), Book) // the guard logs its errors
	if delivery.Ack() {
		_ = m.Ack()
		return
	}
	_ = m.NakWithDelay(100 * time.Millisecond)
}

// natsMessage names a message by its producer's ID, which survives a republication. Without one it is the sequence
// number in the stream.
func natsMessage(m jetstream.Msg) inbox.Message {
	id := m.Headers().Get(jetstream.MsgIDHeader)
	if meta, err := m.Metadata(); id == "" && err == nil {
		id = "sequence-" + strconv.FormatUint(meta.Sequence.Stream, 10)
	}
	return inbox.Message{Source: m.Subject(), ID: id, Payload: m.Data()}
}

// PublishNATS is an [outbox.RelayConfig].Publish for JetStream: it sends the batch at once, and waits for each
// acknowledgement. The stream drops a copy by its Nats-Msg-Id within its duplicate window; after that the consumer does.
func PublishNATS(js jetstream.JetStream) func(ctx context.Context, batch []outbox.Message) []error {
	return func(ctx context.Context, batch []outbox.Message) []error {
		failures, acks := make([]error, len(batch)), make([]jetstream.PubAckFuture, len(batch))
		for i, m := range batch {
			msg := &nats.Msg{Subject: m.Topic, Data: m.Payload, Header: nats.Header{}}
			for name, value := range m.Headers {
				msg.Header.Set(name, value)
			}
			acks[i], failures[i] = js.PublishMsgAsync(msg, jetstream.WithMsgID(m.Key.String()))
		}
		for i, ack := range acks {
			if failures[i] != nil {
				continue
			}
			select {
			case <-ack.Ok():
			case failures[i] = <-ack.Err():
			case <-ctx.Done():
				failures[i] = ctx.Err()
			}
		}
		return failures
	}
}
