package pgstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
)

// A BarrierRequest names an undo and what it undoes.
type BarrierRequest struct {
	// Scope and Namespace are those of both keys: what the forward call's guard
	// has. Scope is required.
	Scope, Namespace string
	// Forward is the key of the call that is undone, as that call sent it and as the
	// undo names it. Required.
	Forward childkey.Key
	// Undo is the undo's own key, by which a second one is known. Required, and
	// another than Forward.
	Undo childkey.Key
	// Name is what the undo does. Required.
	Name string
	// Payload is what the undo's key is bound to. nil: nothing.
	Payload []byte
	// Keep is how long both keys are remembered: longer than a late forward call
	// can come. Zero means [server.DefaultAuditRetention].
	Keep time.Duration
	// LockTimeout bounds the wait for a forward call that is just being settled.
	// Zero means [DefaultLockTimeout].
	LockTimeout time.Duration
	// Schema is as [Config].Schema.
	Schema string
}

// Barrier is [server.Barrier] for an undo that has a transaction of its own and no
// guard: it tells what became of the forward call, and keeps one that has not
// completed from ever running, as part of tx.
//
//	fate, first, err := pgstore.Barrier(ctx, tx, request)
//	if err != nil || !first || fate == server.NeverRan {
//		return err // undone before, or nothing to undo
//	}
//	… // the undo, in tx
//
// first is false for an undo that was made before, whatever it found then: there
// is nothing left to do, and fate is 0. All of it commits and rolls back with tx:
// the forward call cannot begin before tx has ended.
//
// After [server.ErrForwardInProgress] roll back, and try again later: the forward
// call is running. It returns the errors of [Once] for the undo's key, and an error
// wrapping [ErrArgument] for a request that is not as it must be.
func Barrier(ctx context.Context, tx pgx.Tx, req BarrierRequest) (fate server.Fate, first bool, err error) {
	if err := req.check(); err != nil {
		return 0, false, err
	}
	first, err = Once(ctx, tx, OnceRequest{
		Scope: req.Scope, Namespace: req.Namespace, Name: "undo " + req.Name, Key: req.Undo,
		Payload: req.Payload, Keep: req.Keep, Schema: req.Schema,
	})
	if err != nil || !first {
		return 0, false, err
	}
	query, err := queriesFor(req.Schema)
	if err != nil {
		return 0, false, fmt.Errorf("%w: Schema: %w", ErrArgument, err)
	}
	s := &Store{query: query, lockTimeout: strconv.FormatInt(req.LockTimeout.Milliseconds(), 10)}
	b, err := s.cancel(ctx, tx, server.CancelRequest{
		ID: server.NewID(req.Scope, req.Namespace, req.Forward), Token: newToken(), Keep: req.Keep,
	})
	if err != nil {
		return 0, false, wrap("barrier", conflict(err))
	}
	fate, err = server.FateOf(b.record, b.existed)
	return fate, err == nil, err
}

// check also fills in the zeros.
func (req *BarrierRequest) check() error {
	if req.Keep == 0 {
		req.Keep = server.DefaultAuditRetention
	}
	if req.LockTimeout == 0 {
		req.LockTimeout = DefaultLockTimeout
	}
	switch {
	case req.Forward.IsZero():
		return fmt.Errorf("%w: no Forward key", ErrArgument)
	case req.Forward == req.Undo:
		return fmt.Errorf("%w: Undo and Forward are the same key", ErrArgument)
	case req.Name == "":
		return fmt.Errorf("%w: no Name", ErrArgument)
	case req.LockTimeout < time.Millisecond || req.LockTimeout > time.Hour:
		return fmt.Errorf("%w: LockTimeout %v is not between 1ms and 1h", ErrArgument, req.LockTimeout)
	}
	return nil
}
