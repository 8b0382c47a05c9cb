package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/outbox"
)

// connectRabbitMQ makes the exchanges and queues. The client's connections do not mend themselves: both halves connect
// again after a failure.
func connectRabbitMQ(ctx context.Context, o *options) (*broker, error) {
	conn, ch, err := dialRabbitMQ(ctx, o)
	if err != nil {
		return nil, err
	}
	_ = ch.Close()
	p := &rabbitPublisher{o: o}
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
	// The message-id is the producer's. The delivery tag is another one in each delivery.
	switch v, _ := insist(ctx, box, inbox.Message{Source: topic, ID: d.MessageId, Payload: d.Body}); v {
	case done:
		_ = d.Ack(false)
	case dead:
		_ = d.Reject(false)
	default: // ctx has ended
		_ = d.Reject(true)
	}
}

// A rabbitPublisher publishes on one channel, and opens another one after a failure.
type rabbitPublisher struct {
	o        *options
	mu       sync.Mutex
	conn     *amqp.Connection
	ch       *amqp.Channel
	returned chan amqp.Return // what no queue took
}

// rabbitBatch is how many messages wait for their confirmations at the same time.
const rabbitBatch = 256

// publish sends messages at once, and waits until the broker has confirmed each of them. It is persistent by then.
func (p *rabbitPublisher) publish(ctx context.Context, batch []outbox.Message) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	failures := make([]error, 0, len(batch))
	for part := range slices.Chunk(batch, rabbitBatch) {
		failures = append(failures, p.publishPart(ctx, part)...)
	}
	return failures
}

func (p *rabbitPublisher) publishPart(ctx context.Context, batch []outbox.Message) []error {
	failures, confirms := make([]error, len(batch)), make([]*amqp.DeferredConfirmation, len(batch))
	if err := p.open(ctx); err != nil {
		for i := range failures {
			failures[i] = err
		}
		return failures
	}
	for i, m := range batch {
		// mandatory: without it the broker confirms a message that no queue takes.
		confirms[i], failures[i] = p.ch.PublishWithDeferredConfirmWithContext(ctx, m.Topic, m.Aggregate, true, false, rabbitMessage(m))
	}
	for i, c := range confirms {
		if failures[i] == nil {
			failures[i] = confirmed(ctx, c)
		}
	}
	p.noteReturned(batch, failures)
	if errors.Join(failures...) != nil { // late returns must not be taken for those of the next batch
		p.drop()
	}
	return failures
}

func rabbitMessage(m outbox.Message) amqp.Publishing {
	headers := amqp.Table{}
	for name, value := range m.Headers {
		headers[name] = value
	}
	return amqp.Publishing{
		MessageId: m.Key.String(), DeliveryMode: amqp.Persistent, Timestamp: m.Created, Headers: headers, Body: m.Payload,
	}
}

func confirmed(ctx context.Context, c *amqp.DeferredConfirmation) error {
	ok, err := c.WaitContext(ctx)
	if err == nil && !ok {
		err = errors.New("rabbitmq: the broker did not confirm the message")
	}
	return err
}

// noteReturned fails the messages that no queue took. The broker returns a message before it confirms it.
func (p *rabbitPublisher) noteReturned(batch []outbox.Message, failures []error) {
	for {
		select {
		case r, ok := <-p.returned:
			if !ok {
				return
			}
			for i, m := range batch {
				if m.Key.String() == r.MessageId {
					failures[i] = errors.Join(failures[i], fmt.Errorf("rabbitmq: returned: %d %s", r.ReplyCode, r.ReplyText))
				}
			}
		default:
			return
		}
	}
}

// open makes sure that there is a channel with confirmations.
func (p *rabbitPublisher) open(ctx context.Context) error {
	if p.ch != nil && !p.ch.IsClosed() {
		return nil
	}
	p.drop()
	conn, ch, err := dialRabbitMQ(ctx, p.o)
	if err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		_ = conn.Close()
		return err
	}
	p.conn, p.ch = conn, ch
	p.returned = ch.NotifyReturn(make(chan amqp.Return, rabbitBatch)) // never full: the client would wait
	return nil
}

func (p *rabbitPublisher) drop() {
	if p.conn != nil {
		_ = p.conn.CloseDeadline(time.Now().Add(closeTimeout))
	}
	p.conn, p.ch, p.returned = nil, nil, nil
}

func (p *rabbitPublisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}
