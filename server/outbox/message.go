package outbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
)

// ErrArgument is wrapped by the errors for a message that cannot be written.
var ErrArgument = errors.New("outbox: bad argument")

const (
	// MaxNameBytes is the longest Topic, Aggregate, header name and header value.
	MaxNameBytes = 256
	// MaxPayloadBytes is the longest Payload. Brokers take less: NATS 1 MiB, Kafka 1 MB by default.
	MaxPayloadBytes = 16 << 20
	maxHeaders      = 64
)

// A Message is one message for a broker.
type Message struct {
	// Key names the message, and consumers deduplicate by it: give it to the broker as the message's ID, and to
	// inbox.Message as ID. The zero Key means a new one.
	Key childkey.Key
	// Topic says where the message goes: a topic, subject or exchange. 1 to [MaxNameBytes] bytes.
	Topic string
	// Aggregate is what the message is about, such as an order's ID. Messages of one aggregate are published in the
	// order of their commits, whatever their topics. Until its transaction ends, the other writers of the aggregate
	// wait. Empty means no order. At most [MaxNameBytes] bytes.
	Aggregate string
	// Headers go with the message. nil means none; at most 64.
	Headers map[string]string
	// Payload is the message itself. nil is an empty one. At most [MaxPayloadBytes].
	Payload []byte

	// Created is when the message was written, by the database's clock, and Attempts is how often the broker did not
	// take it. A relay fills them in. A Publish function that has a place for dead letters sends a message there when
	// Attempts is large, and reports success.
	Created  time.Time
	Attempts int

	lane     int16
	position int64
}

// check returns an error wrapping [ErrArgument] for a message that no relay could publish.
func (m *Message) check() error {
	switch {
	case m.Topic == "":
		return fmt.Errorf("%w: no Topic", ErrArgument)
	case len(m.Headers) > maxHeaders:
		return fmt.Errorf("%w: %d Headers, more than %d", ErrArgument, len(m.Headers), maxHeaders)
	case len(m.Payload) > MaxPayloadBytes:
		return fmt.Errorf("%w: a Payload of %d bytes, more than %d", ErrArgument, len(m.Payload), MaxPayloadBytes)
	}
	if err := errors.Join(checkText("Topic", m.Topic), checkText("Aggregate", m.Aggregate)); err != nil {
		return err
	}
	for name, value := range m.Headers {
		if name == "" {
			return fmt.Errorf("%w: a header without a name", ErrArgument)
		}
		if err := errors.Join(checkText("header name", name), checkText("header "+name, value)); err != nil {
			return err
		}
	}
	return nil
}

// checkText refuses what Postgres or a broker could not store as text.
func checkText(what, text string) error {
	switch {
	case len(text) > MaxNameBytes:
		return fmt.Errorf("%w: %s of %d bytes, more than %d", ErrArgument, what, len(text), MaxNameBytes)
	case !utf8.ValidString(text), strings.ContainsRune(text, 0):
		return fmt.Errorf("%w: %s %q is not UTF-8, or has a zero byte", ErrArgument, what, text)
	}
	return nil
}

// arguments are the values of write.sql.
func (m *Message) arguments() (pgx.NamedArgs, error) {
	args := pgx.NamedArgs{
		"lane": m.laneOf(), "lock": nil, "key": m.Key.String(),
		"topic": m.Topic, "aggregate": m.Aggregate, "headers": nil, "payload": append([]byte{}, m.Payload...),
	}
	if m.Aggregate != "" {
		args["lock"] = int64(hash("fanonce outbox", m.Aggregate)) //nolint:gosec // any 64 bits
	}
	if len(m.Headers) > 0 {
		text, err := json.Marshal(m.Headers)
		if err != nil {
			return nil, fmt.Errorf("%w: Headers: %w", ErrArgument, err)
		}
		args["headers"] = string(text)
	}
	return args, nil
}

// lanes is how many lanes there are. The migration makes their rows.
const lanes = 32

// laneOf spreads aggregates over the lanes, and messages without one by their keys. It must stay as it is: messages of
// an aggregate that are written by two versions of a program are in one lane.
func (m *Message) laneOf() int16 {
	of := m.Aggregate
	if of == "" {
		of = m.Key.String()
	}
	return int16(hash("lane", of) % lanes) //nolint:gosec // below lanes
}

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, part := range parts {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

func scanMessage(row pgx.CollectableRow) (m Message, err error) {
	var key string
	err = row.Scan(&m.lane, &m.position, &m.Attempts, &m.Created, &key, &m.Topic, &m.Aggregate, &m.Headers, &m.Payload)
	if err != nil {
		return m, err
	}
	m.Key, err = childkey.Parse(key)
	return m, err
}
