package inbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/store"
)

// deadLetter calls the consumer's function, if there is one.
func (a *attempt) deadLetter(ctx context.Context, cause error) error {
	write := a.inbox.cfg.DeadLetter
	if write == nil {
		return nil
	}
	m := a.message
	m.Payload = bytes.Clone(m.Payload) // the function may change it in place, and run again after a conflict
	if err := write(ctx, m, cause); err != nil {
		return fmt.Errorf("inbox: dead letter: %w", err)
	}
	return nil
}

// letter writes the dead letter of a message that cannot run. The letter has a run and a
// key of its own. So it has a transaction, and a redelivery does not write it again.
func (a *attempt) letter(ctx context.Context, cause error) (Result, error) {
	if a.inbox.cfg.DeadLetter == nil {
		return Dead, cause
	}
	key, err := a.letterKey()
	if err != nil {
		return Failed, errors.Join(cause, err)
	}
	task := a.inbox.task
	task.Name = "dead letter of " + task.Name
	if task.Effect == server.Opaque {
		task.Effect = server.Keyed // a letter that failed is written again
	}
	var failure error
	answer, replayed, err := a.inbox.guard.Do(ctx, task, key, a.message.digest(), func(ctx context.Context) (server.Response, error) {
		if failure = a.deadLetter(ctx, cause); failure != nil {
			return failedAnswer, nil
		}
		return server.Response{Status: statusHandled}, server.Settle(ctx, server.DeadLetter())
	})
	if _, unstored := answer.Header[wire.HeaderShouldRetry]; unstored && failure == nil {
		failure = errReleased
	}
	switch code := codeOf(err); {
	case replayed, code == wire.ResponseGone:
		return Dead, nil
	case err == nil && failure == nil:
		return Dead, cause
	case code == wire.InProgress, code == wire.LeaseLost:
		return Busy, errors.Join(cause, err)
	default:
		return Failed, errors.Join(cause, err, failure)
	}
}

// letterKey is the key of the run that writes the dead letter. The payload is part of the key: a message ID can come
// with several payloads, and each payload needs its letter. The message's own name need not be fit for a key.
func (a *attempt) letterKey() (childkey.Key, error) {
	name := sha256.Sum256(fmt.Appendf(nil, "%q %q", a.message.Source, a.message.ID))
	return a.inbox.key("dead letter", string(a.message.digest()), hex.EncodeToString(name[:])) // a message's own key has fewer parts
}

// resolveQuarantined writes the dead letter of a message that killed too many processes, and then
// completes its record.
func (a *attempt) resolveQuarantined(ctx context.Context, cause error) (Result, error) {
	if d, err := a.letter(ctx, cause); d != Dead {
		return d, err
	}
	ctx = context.WithoutCancel(ctx) // the letter is written; the guard bounds each call to its store
	found, err := a.inbox.guard.LookupTask(ctx, a.inbox.task, a.key)
	if err == nil {
		err = a.inbox.guard.Resolve(ctx, found.ID, found.Fence, server.Happened(server.Response{Status: statusDead}), store.Audit{
			Actor: "inbox", Reason: "dead letter of consumer " + a.inbox.cfg.Consumer + ": too many owners of the message died",
		})
	}
	var moved *server.MovedOnError
	if err != nil && !errors.As(err, &moved) {
		return Failed, errors.Join(cause, err)
	}
	return Dead, cause
}
