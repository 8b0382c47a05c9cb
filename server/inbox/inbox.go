// Package inbox makes a consumer of messages handle each message once. The broker may
// deliver a message again, twice at the same time, or after a crash between its effect and
// the acknowledgement. The package works with Kafka, NATS, RabbitMQ and others: it imports
// no broker's client.
//
// The other side, a guarded handler that publishes a message, inserts a job of River in its own transaction. The folder
// examples/consumer has both sides. Without River the handler starts a saga there with pgjournal.Start.
//
// An [Inbox] is made from a [server.Guard], and uses the same engine as a guarded route. Handle a message, and
// acknowledge it if the [Delivery] says so:
//
//	delivery, err := consumer.Handle(ctx, inbox.Message{Source: topic, ID: id, Payload: value}, handle)
//	if delivery.Ack() {
//		commit() // and only then
//	}
//
// Else let the broker deliver it again after [Delivery].Pause. A message whose attempts are spent is a dead letter:
// [Config].DeadLetter gets it. An attempt is a run of the handler that failed by itself, or died with its process. A
// shutdown, or a database that is away, uses none.
//
// For Kafka, ID is a value that the producer put into a header, or "partition/offset". For NATS JetStream it is the
// Nats-Msg-Id or the stream's sequence. For RabbitMQ it is the message-id property, never the delivery tag.
// [server.Config].Retention must be longer than the broker can delay a message: past it a redelivery runs again.
//
// The guard's Observer hears of each delivery, so that guardprom and guardotel count messages that were handled, repeated,
// failed or given up. For one trace from the producer to fn, put the context of the message's traceparent header into the
// ctx of [Inbox.Handle]: examples/consumer does so for each broker.
package inbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
)

// DefaultMaxAttempts is [Config].MaxAttempts if that is zero.
const DefaultMaxAttempts = 10

// ErrAttemptsSpent is the cause of a dead letter whose last attempt left no error,
// because its process died.
var ErrAttemptsSpent = errors.New("inbox: the message's attempts are spent")

// A Message is one message of a broker. Source and ID name the message, and are the same in every delivery. The
// producer chose them, or they are the broker's own coordinates.
type Message struct {
	Source  string // topic, stream or queue; at most 256 bytes, may be empty
	ID      string // unique in the source; 1 to 256 bytes
	Payload []byte
	// Published is when the message was published, by the clock of the broker or the producer. It is for the metrics
	// alone. Zero: not known.
	Published time.Time
}

// Config configures an [Inbox].
type Config struct {
	// Consumer names the consumer. Each consumer handles a message once. Under two guards with different
	// [server.Config].Namespace the same name means two consumers. It is a name as [childkey.CheckName] asks. It must
	// not change while the consumer's messages can be delivered again. Required.
	Consumer string
	// Effect is where the effects of handling a message go. Required.
	Effect server.Effect
	// MaxAttempts is the number of attempts before a message is a dead letter. They are runs of the handler that failed
	// by themselves, also because the database refused their rows, and runs that died with their process.
	// Zero means [DefaultMaxAttempts]. An Opaque message that failed or died gets no further attempt.
	MaxAttempts int
	// DeadLetter is called with a message that gets no further attempt, and the last attempt's error. The call is a
	// run of its own. In a Transactional inbox the rows that it writes with the store's transaction commit with the
	// record; the rows of the attempts are rolled back. It is called at least once. After its error the broker must
	// deliver the message again. nil: the message is recorded as dead, and nothing else happens.
	//
	// Some messages cannot run at all: the ID or the Source is invalid, or the record is quarantined, cancelled, unreadable,
	// of another payload or of unknown outcome. Such a message has its dead letter in a run with a key of its own. The letter
	// is written once for one payload. An Opaque inbox writes it like a Keyed one.
	DeadLetter func(ctx context.Context, m Message, cause error) error
}

// An Inbox handles each message of one consumer once. It is safe for concurrent use.
type Inbox struct {
	guard *server.Guard
	cfg   Config
	task  server.Task
}

// scope is the scope of all inboxes. The namespace distinguishes them.
const scope = "inbox"

// New returns an inbox over g's store. It returns a [*server.ConfigError] for a
// configuration that cannot work.
func New(g *server.Guard, cfg Config) (*Inbox, error) {
	if g == nil {
		return nil, reject("guard", "nil", "a Guard is required")
	}
	if err := childkey.CheckName(cfg.Consumer); err != nil {
		return nil, reject("inbox.Config.Consumer", fmt.Sprintf("%q", cfg.Consumer),
			fmt.Sprintf("must have 1 to %d letters, digits and ._/-, and begin with a letter or a digit", childkey.MaxNameBytes))
	}
	if cfg.MaxAttempts < 0 {
		return nil, reject("inbox.Config.MaxAttempts", fmt.Sprint(cfg.MaxAttempts), "must not be negative")
	}
	cfg.MaxAttempts = cmp.Or(cfg.MaxAttempts, DefaultMaxAttempts)
	task := server.Task{
		Name: "inbox " + cfg.Consumer, Scope: scope, Namespace: "inbox/" + cfg.Consumer, Effect: cfg.Effect,
		Wait: -1, // a redelivery by the broker is cheaper than a consumer that waits
	}
	var wrong *server.ConfigError
	if err := g.CheckTask(task); errors.As(err, &wrong) {
		_, field, _ := strings.Cut(wrong.Field, ".") // of the guard's own type
		return nil, reject("inbox.Config."+field, wrong.Value, wrong.Reason)
	} else if err != nil {
		return nil, err
	}
	return &Inbox{guard: g, cfg: cfg, task: task}, nil
}

func reject(field, value, reason string) error {
	return &server.ConfigError{Field: field, Value: value, Reason: reason}
}

// Key returns the key that the message has for this consumer: [server.InboundKey] of
// the handler's ctx. It is the same in every delivery. The calls that the
// handler makes derive from its hop key, which the ctx carries. The error wraps
// [server.ErrArgument].
func (i *Inbox) Key(m Message) (childkey.Key, error) {
	parts := []string{m.ID}
	if m.Source != "" {
		parts = []string{m.Source, m.ID}
	}
	key, err := i.key(parts...)
	if err != nil {
		return key, fmt.Errorf("%w: the ID of a message has %d bytes and its Source %d: an ID has 1 to %d, a Source at most as many",
			server.ErrArgument, len(m.ID), len(m.Source), childkey.MaxDiscriminatorBytes)
	}
	return key, nil
}

func (i *Inbox) key(parts ...string) (childkey.Key, error) {
	key, err := childkey.FromParts(i.cfg.Consumer, parts...)
	if err != nil {
		return childkey.Key{}, fmt.Errorf("%w: inbox.Message: ID must have 1 to %d bytes, and Source at most %[2]d",
			server.ErrArgument, childkey.MaxDiscriminatorBytes)
	}
	return key, nil
}

// Lookup is [server.Guard.Lookup] for a message.
func (i *Inbox) Lookup(ctx context.Context, m Message) (server.Lookup, error) {
	key, err := i.Key(m)
	if err != nil {
		return server.Lookup{}, err
	}
	return i.guard.LookupTask(ctx, i.task, key)
}

// Handle lets fn handle the message, unless it has been handled. fn's ctx is a run's ctx, as in [server.Guard.Do].
// Any error of fn is a failed attempt; there are [Config].MaxAttempts attempts. In an [server.Opaque] inbox there is
// one attempt. After its failure the outcome is unknown, and the next delivery writes the dead letter, unless fn
// settled with [server.Release]. A panic is a failed attempt too, and goes on to Handle's caller. Handle blocks until
// the run has ended, also if ctx ends.
//
// A message is acknowledged only if its effects are committed or its dead letter is written. So a run that fn settled
// with [server.Release] is [Failed], even if fn returned nil, and is no attempt. After [server.Final] an error is the last:
// the message is a dead letter. fn's rows are rolled back, unless it settled with [server.KeepRows] too. The options can also
// be in the Settle of a [server.StatusError] that fn returns.
//
// The error says why fn did not handle the message: it is fn's own error, a [*server.RefusedError], or the dead
// letter's error. It is nil for [Ran] and [Duplicate], for a message that was dead before, and where fn returned nil and
// released the message. A Source or an ID beyond the limits of [Message] is an error wrapping [server.ErrArgument], and
// a dead letter at once.
//
// Each delivery is one event of the guard's Observer, from [server.EventMessageRan] to [server.EventMessageBusy].
func (i *Inbox) Handle(ctx context.Context, m Message, fn func(ctx context.Context, payload []byte) error) (d Delivery, err error) {
	if fn == nil {
		return Delivery{}, reject("fn", "nil", "a function is required")
	}
	a := &attempt{inbox: i, message: m, fn: fn}
	panicked := true
	defer func() {
		made := a.made
		if panicked {
			made = a.number
		}
		a.observe(ctx, d.Result, made, err)
	}()
	d.Result, err = a.handle(ctx)
	panicked = false
	d.Attempt = a.made
	if !d.Ack() {
		d.Pause = pauseAfter(a.made)
	}
	return d, err
}

// These are the statuses that a message's record can have. Those below 400 commit the rows of a handler, and those of a
// dead letter.
const (
	statusHandled = http.StatusOK
	statusDead    = http.StatusAccepted
	statusFailed  = http.StatusInternalServerError // it is stored only after Final
)

var errReleased = errors.New("inbox: dead letter: it was released")

var errFinal = errors.New("inbox: the handler failed, and said that this is final")

// An attempt is one delivery on its way through the guard.
type attempt struct {
	inbox   *Inbox
	message Message
	key     childkey.Key
	fn      func(context.Context, []byte) error

	number int   // of the last run, as server.Attempt counts
	made   int   // the attempt that this delivery made; 0: none
	spent  bool  // it was the last attempt
	cause  error // the error of that attempt
	ended  bool  // a shutdown or a lost lease ended the run
	dead   bool  // the run wrote the dead letter
	err    error // the error of fn or of DeadLetter
}

func (a *attempt) handle(ctx context.Context) (result Result, err error) {
	if a.key, err = a.inbox.Key(a.message); err != nil {
		return a.letter(ctx, err) // it will never have a key
	}
	result, err = a.run(ctx)
	if result == Failed && a.spent {
		return a.run(ctx) // claimed once more, as a dead letter
	}
	return result, err
}

func (a *attempt) run(ctx context.Context) (Result, error) {
	answer, replayed, err := a.inbox.guard.Do(ctx, a.inbox.task, a.key, a.message.digest(), a.work)
	_, unstored := answer.Header[wire.HeaderShouldRetry]
	switch {
	case err != nil:
		return a.handleRefusal(ctx, errors.Join(err, a.err))
	case replayed && (answer.Status == statusDead || answer.Status == statusFailed && a.inbox.cfg.DeadLetter == nil):
		return Dead, nil // since an earlier delivery
	case replayed && answer.Status == statusFailed:
		return a.letter(ctx, errFinal) // unless it was written before
	case replayed:
		return Duplicate, nil
	case a.err != nil && !unstored:
		return a.letter(ctx, a.err) // Final: there is no other attempt
	case a.err != nil:
		a.fail(a.err)
		return Failed, a.err
	case unstored && a.number > a.inbox.cfg.MaxAttempts:
		return Failed, errReleased
	case unstored: // as the handler wanted it
		return Failed, nil
	case a.dead:
		return Dead, a.cause
	default:
		a.made = a.number
		return Ran, nil
	}
}

// digest is what a message's key is bound to. A payload may be longer than what a guard takes from its callers.
func (m *Message) digest() []byte {
	sum := sha256.Sum256(m.Payload)
	return hex.AppendEncode(nil, sum[:])
}

// fail notes that the attempt failed by itself.
func (a *attempt) fail(cause error) {
	if a.number > a.inbox.cfg.MaxAttempts || a.ended {
		return // the letter could not be written, or it did not fail by itself
	}
	a.made, a.cause = a.number, cause
	a.spent = a.number == a.inbox.cfg.MaxAttempts
}

// failedAnswer is the answer of a failed attempt. It leaves the error out.
var failedAnswer = server.Response{Status: statusFailed}

// work is the handler. Once the attempts are spent it writes the dead letter.
func (a *attempt) work(ctx context.Context) (server.Response, error) {
	a.number, a.dead, a.err = server.Attempt(ctx), false, nil
	defer func() {
		cause := context.Cause(ctx)
		a.ended = errors.Is(cause, server.ErrShutdown) || errors.Is(cause, server.ErrLeaseLost)
	}()
	if a.number > a.inbox.cfg.MaxAttempts {
		a.cause = cmp.Or(a.cause, ErrAttemptsSpent)
		if a.err = a.deadLetter(ctx, a.cause); a.err != nil {
			return failedAnswer, nil
		}
		a.dead = true
		return server.Response{Status: statusDead}, server.Settle(ctx, server.DeadLetter())
	}
	if a.err = a.fn(ctx, bytes.Clone(a.message.Payload)); a.err != nil { // the handler may change it in place
		a.settleByError(ctx)
		return failedAnswer, nil
	}
	return server.Response{Status: statusHandled}, nil
}

// settleByError settles the run as the options of the handler's StatusError say.
func (a *attempt) settleByError(ctx context.Context) {
	var status *server.StatusError
	if !errors.As(a.err, &status) || len(status.Settle) == 0 {
		return
	}
	if err := server.Settle(ctx, status.Settle...); err != nil {
		a.err = errors.Join(a.err, err)
	}
}

// handleRefusal decides about a message that did not run and has no answer.
func (a *attempt) handleRefusal(ctx context.Context, err error) (Result, error) {
	switch codeOf(err) {
	case wire.ResponseGone: // past its retention the message is still handled
		return Duplicate, nil
	case wire.InProgress, wire.LeaseLost:
		return Busy, err
	case wire.Poisoned:
		return a.resolveQuarantined(ctx, err)
	case wire.KeyReused, wire.OutcomeUnknown, wire.KeyCancelled, wire.RecordUnreadable:
		return a.letter(ctx, err) // it can never run; the record stays as it is, for a person
	case wire.TransactionFailed:
		a.fail(err)
		return Failed, err
	default:
		return Failed, err
	}
}

// codeOf returns the code of a refusal, or "".
func codeOf(err error) wire.Code {
	var refused *server.RefusedError
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.Code
}
