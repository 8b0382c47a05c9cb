package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/fanonce/fanonce/server/inbox"
)

// connectRabbitMQ makes the exchanges and queues. The client does not mend its connections, so that both halves connect
// again after a failure.
func connectRabbitMQ(ctx context.Context, o *options) (*broker, error) {
	conn, ch, err := dialRabbitMQ(ctx, o)
	if err != nil {
		return nil, err
	}
	_ = ch.Close()
	p := newRabbitPublisher(o)
	return &broker{
		publish: p.publish,
		consume: func(ctx context.Context, box *inbox.Inbox) error { return consumeRabbitMQ(ctx, o, box) },
		close:   p.close,
	}, conn.Close()
}

// dialRabbitMQ returns a connection and a channel, within ctx. It does not change what is declared already.
//
//	exchange payments ──▶ queue payments.ledger ──rejected──▶ exchange payments.dead ──▶ queue payments.dead
func dialRabbitMQ(ctx context.Context, o *options) (*amqp.Connection, *amqp.Channel, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := amqp.DialConfig(o.broker, amqp.Config{Heartbeat: 10 * time.Second, Locale: "en_US", Dial: func(network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			err = c.SetDeadline(time.Now().Add(dialTimeout)) // the client takes it away after the handshake
		}
		return c, err
	}})
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.CloseDeadline(time.Now()) })
	defer stop()
	ch, err := conn.Channel()
	if err == nil {
		err = declareRabbitMQ(ch, o.topic)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, ch, nil
}

// dialTimeout bounds a connection's handshake and declarations.
const dialTimeout = 5 * time.Second

// closeTimeout bounds the farewell to a broker that does not answer. The client itself waits for two heartbeats or more.
const closeTimeout = 200 * time.Millisecond

func declareRabbitMQ(ch *amqp.Channel, topic string) error {
	quorum := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	ledger := amqp.Table{
		amqp.QueueTypeArg:        amqp.QueueTypeQuorum,
		"x-dead-letter-exchange": topic + deadSuffix,
		// A letter leaves this queue when the queue of dead letters has it. That needs the overflow setting.
		"x-dead-letter-strategy": "at-least-once",
		amqp.QueueOverflowArg:    amqp.QueueOverflowRejectPublish,
		// The inbox counts the attempts. The broker counts deliveries, also those that a killed ledger had only
		// fetched, and its default of 20 (since version 4) would make dead letters of good messages.
		"x-delivery-limit": int32(1_000_000),
	}
	for _, q := range []struct {
		exchange, queue string
		args            amqp.Table
	}{{topic + deadSuffix, topic + deadSuffix, quorum}, {topic, topic + "." + group, ledger}} {
		if err := ch.ExchangeDeclare(q.exchange, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
			return err
		}
		if _, err := ch.QueueDeclare(q.queue, true, false, false, false, q.args); err != nil {
			return err
		}
		if err := ch.QueueBind(q.queue, "", q.exchange, false, nil); err != nil {
			return err
		}
	}
	return nil
}

// consumeRabbitMQ books messages until ctx ends, and connects again when a connection is lost.
func consumeRabbitMQ(ctx context.Context, o *options, box *inbox.Inbox) error {
	for pause := 50 * time.Millisecond; ; {
		began := time.Now()
		err := rabbitSession(ctx, o, box)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > 10*time.Second {
			pause = 50 * time.Millisecond
		}
		o.log.Warn("rabbitmq: connecting again", "in", pause, "error", err)
		sleep(ctx, pause)
		pause = min(2*pause, 5*time.Second)
	}
}

var errRabbitClosed = errors.New("the broker closed the connection")

// rabbitSession books the messages of one connection, several at the same time. The queue keeps no order among them.
func rabbitSession(ctx context.Context, o *options, box *inbox.Inbox) error {
	conn, ch, err := dialRabbitMQ(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseDeadline(time.Now().Add(closeTimeout)) }() // the broker delivers again what is not acknowledged
	if err := ch.Qos(2*workers, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(o.topic+"."+group, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel() // of a connection that is lost nothing more is begun
	free := make(chan struct{}, workers)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case d, ok := <-deliveries:
			if !ok {
				return errRabbitClosed
			}
			free <- struct{}{}
			running.Go(func() {
				defer func() { <-free }()
				handleRabbitMQ(ctx, d, o.topic, box)
			})
		}
	}
}

// handleRabbitMQ books one message. One that failed is tried again here: the broker would deliver it again at once.
// Rejected without being queued again, a message goes to the exchange of dead letters.
func handleRabbitMQ(ctx context.Context, d amqp.Delivery, topic string, box *inbox.Inbox) {
	// The producer has chosen the message-id. The delivery tag differs from delivery to delivery.
	m := inbox.Message{Source: topic, ID: d.MessageId, Payload: d.Body, Published: d.Timestamp}
	header := func(name string) string {
		text, _ := d.Headers[name].(string)
		return text
	}
	switch v, _ := insist(inTrace(ctx, header), box, m); v {
	case done:
		_ = d.Ack(false)
	case dead:
		_ = d.Reject(false)
	default: // ctx has ended
		_ = d.Reject(true)
	}
}
