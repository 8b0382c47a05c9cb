package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server/store"
)

// Barrier is server.Barrier for an undo that has a transaction of its own and no guard. It returns
// the fate of the forward call. As part of tx it also makes sure that an incomplete forward call
// never runs. A completed one is undone with tx, and its repeats get key-cancelled from then on.
//
//	fate, first, err := pgstore.Barrier(ctx, tx, forward, undo)
//	if err != nil || !first || fate == store.NeverRan {
//		return err // undone before, or nothing to undo
//	}
//	… // the undo, in tx
//
// The argument forward is the key of the call that is undone, as that call sent it. The
// request undo has the undo's own Key, which is another one, and the Scope and
// Namespace that the guard of the forward call has. Both keys are remembered for
// undo.Keep: choose it longer than a late forward call can come.
//
// The result first is false for an undo that was made before, whatever it found then:
// nothing is left to do, and fate is 0. All of it commits and rolls back with tx:
// the forward call cannot begin before tx has ended. Barrier waits for a forward call
// that is just being settled for at most [DefaultLockTimeout].
//
// After [store.ErrForwardInProgress] roll back, and try again later: the forward call is running.
// Barrier returns the errors of [Once] for the undo's key, and an error wrapping [ErrArgument] for
// an invalid argument.
func Barrier(ctx context.Context, tx pgx.Tx, forward childkey.Key, undo OnceRequest) (fate store.Fate, first bool, err error) {
	if err := undo.checkUndo(forward); err != nil {
		return 0, false, err
	}
	undo.Name = "undo " + undo.Name
	first, err = Once(ctx, tx, undo)
	if err != nil || !first {
		return 0, false, err
	}
	query, err := queriesBySchema.For(undo.Schema)
	if err != nil {
		return 0, false, fmt.Errorf("%w: Schema: %w", ErrArgument, err)
	}
	s := &Store{query: query, cfg: Config{LockTimeout: DefaultLockTimeout}}
	b, err := s.cancel(ctx, tx, store.CancelRequest{
		ID: store.NewID(undo.Scope, undo.Namespace, forward), Token: newToken(), Keep: undo.Keep, Undone: true, // with tx
	})
	if err != nil {
		return 0, false, wrap("barrier", conflict(err))
	}
	fate, err = store.FateOf(b.record, b.existed)
	return fate, err == nil, err
}

// checkUndo checks what [Once] does not. It also fills in Keep.
func (req *OnceRequest) checkUndo(forward childkey.Key) error {
	if req.Keep == 0 {
		req.Keep = store.DefaultAuditRetention
	}
	switch {
	case forward.IsZero():
		return fmt.Errorf("%w: no forward key", ErrArgument)
	case forward == req.Key:
		return fmt.Errorf("%w: the undo has the key of the forward call", ErrArgument)
	case req.Name == "":
		return fmt.Errorf("%w: no Name", ErrArgument)
	}
	return nil
}
