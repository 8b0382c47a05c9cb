package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A rabbitPublisher publishes messages at the same time, each on a connection of its own. So it knows whose message was
// returned, and one that is slow holds back no other.
type rabbitPublisher struct {
	o    *options
	idle chan *rabbitConn
}

func newRabbitPublisher(o *options) *rabbitPublisher {
	return &rabbitPublisher{o: o, idle: make(chan *rabbitConn, publishers)}
}

// publish sends a message, and waits until the broker has confirmed it. It is persistent by then.
func (p *rabbitPublisher) publish(ctx context.Context, m Message) error {
	c, err := p.take(ctx)
	if err != nil {
		return err
	}
	if err := c.publish(ctx, m); err != nil {
		c.close() // a late confirmation or return must not count for the next message
		return err
	}
	select {
	case p.idle <- c:
	default:
		c.close()
	}
	return nil
}

// take returns a connection that no other message uses.
func (p *rabbitPublisher) take(ctx context.Context) (*rabbitConn, error) {
	for {
		select {
		case c := <-p.idle:
			if !c.ch.IsClosed() {
				return c, nil
			}
			c.close()
		default:
			return p.open(ctx)
		}
	}
}

// open returns a new connection whose messages are confirmed.
func (p *rabbitPublisher) open(ctx context.Context) (*rabbitConn, error) {
	conn, ch, err := dialRabbitMQ(ctx, p.o)
	if err != nil {
		return nil, err
	}
	c := &rabbitConn{conn: conn, ch: ch, returned: ch.NotifyReturn(make(chan amqp.Return, 1))}
	if err := ch.Confirm(false); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// close closes the connections when no message is being published.
func (p *rabbitPublisher) close() {
	for {
		select {
		case c := <-p.idle:
			c.close()
		default:
			return
		}
	}
}

// A rabbitConn is a connection that publishes one message at a time.
type rabbitConn struct {
	conn     *amqp.Connection
	ch       *amqp.Channel
	returned chan amqp.Return // a message that no queue took
}

func (c *rabbitConn) publish(ctx context.Context, m Message) error {
	headers := make(amqp.Table)
	for name, value := range m.Trace {
		headers[name] = value
	}
	// mandatory: without it the broker confirms a message that no queue takes.
	confirmation, err := c.ch.PublishWithDeferredConfirmWithContext(ctx, m.Topic, m.Account, true, false, amqp.Publishing{
		MessageId: m.Key, DeliveryMode: amqp.Persistent, Timestamp: time.Now(), Headers: headers, Body: m.Payload,
	})
	if err != nil {
		return err
	}
	ok, err := confirmation.WaitContext(ctx)
	switch {
	case err != nil:
		return err
	case !ok:
		return errors.New("rabbitmq: the broker did not confirm the message")
	}
	select {
	case r, ok := <-c.returned: // the broker returns a message before it confirms it
		if ok {
			return fmt.Errorf("rabbitmq: returned: %d %s", r.ReplyCode, r.ReplyText)
		}
	default:
	}
	return nil
}

func (c *rabbitConn) close() { _ = c.conn.CloseDeadline(time.Now().Add(closeTimeout)) }
