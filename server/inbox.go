package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
)

// DefaultMaxAttempts is [InboxConfig].MaxAttempts where that is zero.
const DefaultMaxAttempts = 10

// ErrAttemptsSpent is what a dead letter is told if the last attempt left no
// error: its process died.
var ErrAttemptsSpent = errors.New("server: the message's attempts are spent")

// A Message is one message of a broker. Source and ID name it, in every
// delivery alike: what the producer chose, or the broker's own coordinates.
type Message struct {
	Source  string // topic, stream or queue; at most 256 bytes, may be empty
	ID      string // unique in the source; 1 to 256 bytes
	Payload []byte
}

// InboxConfig configures an [Inbox].
type InboxConfig struct {
	// Consumer names who consumes: two consumers of one message are two
	// matters, and so are the consumers of this name of two guards whose
	// [Config.Namespace] differ. A name as [childkey.CheckName] asks. It must not
	// change while the consumer's messages can be delivered again. Required.
	Consumer string
	// Effect is where the effects of handling a message go. Required.
	Effect Effect
	// MaxAttempts is how often a message is tried, deaths included, before it
	// is a dead letter. Zero means [DefaultMaxAttempts]. An Opaque one that failed
	// or died is not tried again.
	MaxAttempts int
	// DeadLetter is called with a message that will not be tried again, and the
	// last attempt's error. It is a run of its own: in a Transactional inbox
	// what it writes with the store's transaction commits with the record, and
	// what the attempts wrote is gone. It is called at least once; its error
	// leaves the message to be delivered again. nil: the message is recorded as
	// dead, and that is all.
	//
	// A message that cannot run at all (poisoned, reused, cancelled or of unknown
	// outcome) has its dead letter in a run with a key of its own. It is written once
	// for one payload, and in an Opaque inbox as in a Keyed one.
	DeadLetter func(ctx context.Context, m Message, cause error) error
}

// A Delivery is what became of one delivery of a message.
type Delivery uint8

const (
	// DeliveryFailed means that the attempt failed, and there will be others:
	// let the broker deliver the message again.
	DeliveryFailed Delivery = iota
	// DeliveryRan means that the message was handled by this delivery.
	DeliveryRan
	// DeliveryDuplicate means that the message had been handled before.
	DeliveryDuplicate
	// DeliveryDead means that the message will not be tried again; its dead
	// letter was written, now or before.
	DeliveryDead
	// DeliveryBusy means that another delivery of the message is being handled
	// at this moment: let the broker deliver it again later.
	DeliveryBusy
)

// Ack reports whether the broker must be told that the message is done with.
func (d Delivery) Ack() bool {
	return d == DeliveryRan || d == DeliveryDuplicate || d == DeliveryDead
}

// String returns the name of the delivery.
func (d Delivery) String() string {
	switch d {
	case DeliveryRan:
		return "ran"
	case DeliveryDuplicate:
		return "duplicate"
	case DeliveryDead:
		return "dead"
	case DeliveryBusy:
		return "busy"
	default:
		return "failed"
	}
}

// An Inbox makes a consumer of messages handle each message once, over a broker
// that delivers at least once: redelivered, in parallel, or after a crash between
// the effect and the acknowledgement. It is the same engine as under a guarded
// route. It is safe for concurrent use.
//
//	delivery, err := inbox.Handle(ctx, server.Message{Source: topic, ID: id, Payload: value}, handle)
//	if delivery.Ack() {
//		commit() // and only then
//	}
//
// For Kafka, ID is what the producer put into a header, or "partition/offset"; for
// NATS JetStream the Nats-Msg-Id or the stream's sequence; for RabbitMQ the
// message-id property, never the delivery tag. [Config.Retention] must be longer
// than the broker can hold a message back: past it a redelivery runs anew.
type Inbox struct {
	guard     *Guard
	cfg       InboxConfig
	task      Task
	namespace string
}

// NewInbox returns an inbox over g's store. It returns a [*ConfigError] for what
// cannot work.
func NewInbox(g *Guard, cfg InboxConfig) (*Inbox, error) {
	if g == nil {
		return nil, reject("guard", "nil", "a Guard is required")
	}
	if err := childkey.CheckName(cfg.Consumer); err != nil {
		return nil, reject("InboxConfig.Consumer", fmt.Sprintf("%q", cfg.Consumer), err.Error())
	}
	if cfg.MaxAttempts < 0 {
		return nil, reject("InboxConfig.MaxAttempts", cfg.MaxAttempts, "must not be negative")
	}
	orDefault(&cfg.MaxAttempts, DefaultMaxAttempts)
	if err := g.checkRoute(Route{Effect: cfg.Effect}); err != nil {
		return nil, err
	}
	// A broker that delivers again is cheaper than a consumer that waits.
	task := Task{Name: "inbox " + cfg.Consumer, Scope: inboxScope, Effect: cfg.Effect, Wait: -1}
	return &Inbox{guard: g, cfg: cfg, task: task, namespace: inboxNamespace(g.cfg.Namespace, cfg.Consumer)}, nil
}

// inboxScope is the scope of all inboxes. The namespace tells them apart.
const inboxScope = "inbox"

// inboxNamespace returns the namespace of a guard's inbox. No name has a colon:
// neither a guard's namespace nor another guard's inbox is the same.
func inboxNamespace(guard, consumer string) string {
	if guard == "" {
		return inboxPrefix + consumer
	}
	return guard + ":" + inboxPrefix + consumer
}

// Key returns the key that the message has for this consumer: [InboundKey] of
// the handler's ctx. It is the same in every delivery. The calls that the
// handler makes derive from its hop key, which the ctx carries.
func (b *Inbox) Key(m Message) (childkey.Key, error) {
	parts := []string{m.ID}
	if m.Source != "" {
		parts = []string{m.Source, m.ID}
	}
	key, err := childkey.FromParts(b.cfg.Consumer, parts...)
	if err != nil {
		return childkey.Key{}, fmt.Errorf("%w: message: %w", ErrArgument, err)
	}
	return key, nil
}

// Lookup is [Guard.Lookup] for a message.
func (b *Inbox) Lookup(ctx context.Context, m Message) (Lookup, error) {
	key, err := b.Key(m)
	if err != nil {
		return Lookup{}, err
	}
	return b.guard.lookup(ctx, lookupID(inboxScope, b.namespace, key))
}

// Handle lets fn handle the message, unless it has been handled. fn's ctx is that
// of a run, as in [Do]; what fn returns as an error is a failed attempt, of which
// [InboxConfig.MaxAttempts] are made. In an [Opaque] inbox it is one: then nobody knows,
// and the next delivery writes the dead letter, unless fn called [Retryable]. A panic is a
// failed attempt too, and goes on to Handle's caller. Handle blocks until the run has
// ended, also if ctx ends.
//
// The error says why the delivery did not run fn to its end: fn's own, a
// [*RefusedError], the dead letter's. It is nil for [DeliveryRan] and
// [DeliveryDuplicate], and for a message that was dead before. An ID that is not
// as [Message] says is an error wrapping [ErrArgument].
func (b *Inbox) Handle(ctx context.Context, m Message, fn func(ctx context.Context, payload []byte) error) (Delivery, error) {
	if fn == nil {
		return DeliveryFailed, reject("fn", "nil", "a function is required")
	}
	key, err := b.Key(m)
	if err != nil {
		return DeliveryFailed, err
	}
	try := &attempt{inbox: b, message: m, key: key, fn: fn}
	delivery, err := try.run(ctx)
	if delivery == DeliveryFailed && try.spent {
		return try.run(ctx) // claimed once more, as a dead letter
	}
	return delivery, err
}

// An attempt is one delivery on its way through the engine.
type attempt struct {
	inbox   *Inbox
	message Message
	key     childkey.Key
	fn      func(context.Context, []byte) error

	last  bool  // the run was the last attempt
	spent bool  // this delivery made the last attempt, and it failed
	cause error // of that failure
	dead  bool  // the run wrote the dead letter
	err   error // of fn, or of the dead letter
}

// The statuses that a message's record can have.
const (
	statusHandled = http.StatusOK
	statusDead    = http.StatusUnprocessableEntity
)

func (a *attempt) run(ctx context.Context) (Delivery, error) {
	b := a.inbox
	c, err := b.guard.newCall(ctx, &b.task, b.namespace, a.key, a.message.Payload)
	if err != nil {
		return DeliveryFailed, err
	}
	c.work = a.work
	switch o := b.guard.do(ctx, c); {
	case o.replay != nil && o.replay.Status == statusDead:
		return DeliveryDead, nil
	case o.replay != nil, o.code == wire.ResponseGone: // past its retention it is still done with
		return DeliveryDuplicate, nil
	case o.ran && a.err != nil:
		return DeliveryFailed, a.err
	case o.ran && a.dead:
		return DeliveryDead, a.cause
	case o.ran:
		return DeliveryRan, nil
	default:
		return a.refused(ctx, c, o)
	}
}

// work is the handler: the fence counts the attempts.
func (a *attempt) work(ctx context.Context) result {
	b := a.inbox
	last := int64(b.cfg.MaxAttempts)
	a.dead, a.err, a.last = false, nil, Fence(ctx) == last
	if Fence(ctx) > last {
		a.cause = cmp.Or(a.cause, ErrAttemptsSpent)
		if a.err = b.deadLetter(ctx, a.message, a.cause); a.err != nil {
			return b.guard.failed(a.err)
		}
		a.dead = true
		res := b.guard.answer(statusDead, contract.ContentType, nil)
		res.needsRows = true // the letter
		return res
	}
	if a.err = a.fn(ctx, a.message.Payload); a.err != nil {
		a.spent, a.cause = a.last, a.err
		return result{answer: Answer{Status: http.StatusInternalServerError}} // whatever the error: it is a failed attempt
	}
	return b.guard.answer(statusHandled, contract.ContentType, nil)
}

func (b *Inbox) deadLetter(ctx context.Context, m Message, cause error) error {
	if b.cfg.DeadLetter == nil {
		return nil
	}
	if err := b.cfg.DeadLetter(ctx, m, cause); err != nil {
		return fmt.Errorf("server: dead letter: %w", err)
	}
	return nil
}

// refused decides about a message that did not run and has no record of its end.
func (a *attempt) refused(ctx context.Context, c *call, o outcome) (Delivery, error) {
	err := errors.Join(refusedError(o), a.err)
	switch o.code {
	case wire.InProgress, wire.LeaseLost:
		return DeliveryBusy, err
	case wire.Poisoned:
		return a.bury(ctx, c, err)
	case wire.KeyReused, wire.OutcomeUnknown, wire.KeyCancelled:
		return a.letter(ctx, err) // it can never run; the record stays as it is, for a person
	case wire.TransactionFailed:
		a.spent, a.cause = a.last, err
		return DeliveryFailed, err
	default:
		return DeliveryFailed, err
	}
}
