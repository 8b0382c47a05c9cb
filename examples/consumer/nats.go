package main

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
)

// connectNATS makes the streams of payments and of dead letters, if they are missing, and the ledger's consumer.
func connectNATS(ctx context.Context, o *options) (*broker, error) {
	conn, err := nats.Connect(o.broker, nats.MaxReconnects(-1), nats.Name("consumer"))
	if err != nil {
		return nil, err
	}
	js, from, err := streamsOf(ctx, conn, o)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &broker{
		publish: publishNATS(js),
		consume: func(ctx context.Context, box *inbox.Inbox) error { return consumeNATS(ctx, o, js, from, box) },
		close:   conn.Close,
	}, nil
}

func streamsOf(ctx context.Context, conn *nats.Conn, o *options) (jetstream.JetStream, jetstream.Consumer, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, nil, err
	}
	for name, subject := range map[string]string{o.topic: o.topic, o.topic + "-dead": o.topic + deadSuffix} {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{subject}})
		if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // one that is there stays as it is
			return nil, nil, err
		}
	}
	from, err := js.CreateOrUpdateConsumer(ctx, o.topic, jetstream.ConsumerConfig{
		Durable: group, AckPolicy: jetstream.AckExplicitPolicy, AckWait: o.ackWait,
		MaxDeliver: -1, // the inbox counts the attempts
	})
	return js, from, err
}

// consumeNATS books messages until ctx ends, several at the same time. JetStream keeps no order among them.
func consumeNATS(ctx context.Context, o *options, js jetstream.JetStream, from jetstream.Consumer, box *inbox.Inbox) error {
	// The client sends a pull anew that the broker has lost, and notices it by the heartbeats that it misses. They are
	// no error: a broker may be silent for any time.
	messages, err := from.Messages(jetstream.PullMaxMessages(2*workers), jetstream.PullExpiry(max(o.ackWait, time.Second)),
		jetstream.WithMessagesErrOnMissingHeartbeat(false))
	if err != nil {
		return fmt.Errorf("messages: %w", err)
	}
	stop := context.AfterFunc(ctx, messages.Stop)
	defer stop()
	defer messages.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	free := make(chan struct{}, workers)
	for {
		m, err := messages.Next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			handleNATS(ctx, js, m, box)
		})
	}
}

// handleNATS books one message. The broker hears of it only when the row is committed. A lost acknowledgement brings the
// message again, and the inbox knows it.
func handleNATS(ctx context.Context, js jetstream.JetStream, m jetstream.Msg, box *inbox.Inbox) {
	v, pause, cause := handle(inTrace(ctx, m.Headers().Get), box, natsMessage(m))
	if v == dead && buryNATS(ctx, js, m, cause) != nil {
		v, pause = again, time.Second
	}
	switch v {
	case done:
		_ = m.Ack()
	case dead:
		_ = m.TermWithReason("dead letter")
	default:
		_ = m.NakWithDelay(pause)
	}
}

// buryNATS publishes a dead letter. The stream of dead letters drops copies by the message's ID.
func buryNATS(ctx context.Context, js jetstream.JetStream, m jetstream.Msg, cause error) error {
	letter := &nats.Msg{Subject: m.Subject() + deadSuffix, Data: m.Data(), Header: nats.Header{}}
	for name, values := range m.Headers() {
		letter.Header[name] = values
	}
	letter.Header.Set(jetstream.MsgIDHeader, natsMessage(m).ID)
	letter.Header.Set(causeHeader, causeOf(cause))
	_, err := js.PublishMsg(context.WithoutCancel(ctx), letter)
	return err
}

// natsMessage names a message by its producer's ID, which survives a republication. Without one it is the sequence
// number in the stream.
func natsMessage(m jetstream.Msg) inbox.Message {
	named := inbox.Message{Source: m.Subject(), ID: m.Headers().Get(jetstream.MsgIDHeader), Payload: m.Data()}
	meta, err := m.Metadata()
	if err != nil {
		return named
	}
	named.Published = meta.Timestamp
	if named.ID == "" {
		named.ID = "sequence-" + strconv.FormatUint(meta.Sequence.Stream, 10)
	}
	return named
}

// publishNATS returns the publish function for JetStream. The stream drops a copy by its Nats-Msg-Id within its duplicate
// window. After that the ledger drops it.
func publishNATS(js jetstream.JetStream) func(ctx context.Context, m Message) error {
	return func(ctx context.Context, m Message) error {
		msg := &nats.Msg{Subject: m.Topic, Data: m.Payload, Header: nats.Header{}}
		for name, value := range m.Trace {
			msg.Header.Set(name, value)
		}
		_, err := js.PublishMsg(ctx, msg, jetstream.WithMsgID(m.Key))
		return err
	}
}
