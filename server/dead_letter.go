package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
)

// letter writes the dead letter of a message that cannot run. The letter has a run and a
// key of its own. So it has a transaction, and a redelivery does not write it again.
func (a *attempt) letter(ctx context.Context, cause error) (Delivery, error) {
	b := a.inbox
	if b.cfg.DeadLetter == nil {
		return DeliveryDead, cause
	}
	c, err := a.letterCall(ctx)
	if err != nil {
		return DeliveryFailed, errors.Join(cause, err)
	}
	var failure error
	c.work = func(ctx context.Context) result {
		if failure = b.deadLetter(ctx, a.message, cause); failure != nil {
			return b.guard.failed(failure)
		}
		return b.guard.answer(statusHandled, contract.ContentType, nil)
	}
	switch o := b.guard.do(ctx, c); {
	case o.replay != nil, o.code == wire.ResponseGone:
		return DeliveryDead, nil
	case o.ran && failure == nil:
		return DeliveryDead, cause
	case o.ran:
		return DeliveryFailed, errors.Join(cause, failure)
	case o.code == wire.InProgress, o.code == wire.LeaseLost:
		return DeliveryBusy, errors.Join(cause, refusedError(o))
	default:
		return DeliveryFailed, errors.Join(cause, refusedError(o), failure)
	}
}

// letterCall is the call that writes the dead letter. The payload is part of the key: a
// message ID can come with several payloads, and each of them needs its letter.
func (a *attempt) letterCall(ctx context.Context) (*call, error) {
	b := a.inbox
	payload := sha256.Sum256(a.message.Payload)
	parts := []string{"dead letter", hex.EncodeToString(payload[:]), a.message.ID} // a message's own key has fewer
	if a.message.Source != "" {
		parts = append(parts, a.message.Source)
	}
	key, err := childkey.FromParts(b.cfg.Consumer, parts...)
	if err != nil {
		return nil, fmt.Errorf("%w: message: %w", ErrArgument, err)
	}
	task := b.task
	task.Name = "dead letter of " + task.Name
	if task.Effect == Opaque {
		task.Effect = Keyed // a letter that failed is written again
	}
	return b.guard.newCall(ctx, &task, b.namespace, key, a.message.Payload)
}

// bury writes the dead letter of a message that killed too many processes, and
// then its record.
func (a *attempt) bury(ctx context.Context, c *call, cause error) (Delivery, error) {
	g := a.inbox.guard
	if d, err := a.letter(ctx, cause); d != DeliveryDead {
		return d, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.StoreTimeout)
	defer cancel()
	rec, err := g.store.Read(ctx, c.id)
	if err == nil {
		err = g.resolve(ctx, &rec, Happened(Response{Status: statusDead}), rec.Deaths,
			Audit{Verb: VerbResolve, Actor: a.inbox.task.Name, Reason: "dead letter: too many of its owners died"})
	}
	var moved *MovedOnError
	if err != nil && !errors.As(err, &moved) {
		return DeliveryFailed, errors.Join(cause, err)
	}
	return DeliveryDead, cause
}
