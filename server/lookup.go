package server

import (
	"context"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey"
)

// A Lookup is where a key stands, for whoever may use it. All times are by the
// store's clock.
type Lookup struct {
	ID    ID
	State State
	// Fence is 1 for the first run and grows with each further one.
	Fence int64
	// Replayable reports that a retry gets the answer.
	Replayable bool
	// Response is the stored answer of a completed key: its headers and body
	// as long as they are kept, longer than retries get them; else the status
	// alone. Zero in other states.
	Response Response

	Now         time.Time
	CreatedAt   time.Time
	LeaseUntil  time.Time // while in progress
	ReplayUntil time.Time // of a completed key
	ExpiresAt   time.Time // the record may be deleted after it
}

// IDOf returns what the store, logs and events know a key by. scope is what the
// [ScopeFunc] returns for the key's caller.
func (g *Guard) IDOf(scope string, key childkey.Key) ID { return lookupID(scope, g.cfg.Namespace, key) }

// Lookup returns where a key stands. It changes nothing, and asks the store
// every time. It returns [ErrNotFound] for a key that has no record, an error
// wrapping [ErrArgument] for a scope that no caller has or the zero key, and the store's
// errors. An answer that cannot be opened is left out.
func (g *Guard) Lookup(ctx context.Context, scope string, key childkey.Key) (Lookup, error) {
	if err := checkScope(scope); err != nil {
		return Lookup{}, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	if key.IsZero() {
		return Lookup{}, fmt.Errorf("%w: the zero key", ErrArgument)
	}
	return g.lookup(ctx, g.IDOf(scope, key))
}

func (g *Guard) lookup(ctx context.Context, id ID) (Lookup, error) {
	rec, err := g.store.Read(ctx, id)
	if err != nil {
		return Lookup{}, err
	}
	return g.lookedUp(&rec), nil
}

func (g *Guard) lookedUp(rec *Record) Lookup {
	l := Lookup{
		ID: rec.ID, State: rec.State, Fence: rec.Fence,
		Now: rec.Now, CreatedAt: rec.CreatedAt, ExpiresAt: rec.ExpiresAt,
	}
	switch rec.State {
	case StateInProgress:
		l.LeaseUntil = rec.LeaseUntil
	case StateCompleted:
		l.ReplayUntil = rec.ReplayUntil
		l.Response = Response{Status: rec.Answer.Status}
		if answer, err := g.openAnswer(rec); err == nil && !answer.isReference() {
			if r, err := responseOf(answer.Status, answer.Envelope); err == nil {
				l.Response = r
				l.Replayable = rec.Now.Before(rec.ReplayUntil)
			}
		}
	default:
	}
	return l
}
