package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// Cancel implements [store.Store]. It locks the record even where it changes
// nothing. It waits for another transaction that holds the key, for at most Config.LockTimeout. Then it returns
// [store.ErrInProgress].
func (s *Store) Cancel(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	b, err := pgkit.RetryConflict(ctx, func() (before, error) {
		return pgkit.Tx(ctx, s.db.Writer, func(ctx context.Context, tx pgx.Tx) (before, error) { return s.cancel(ctx, tx, req, nil) })
	})
	return b.record, b.existed, wrap("cancel", toInProgress(err))
}

// before is the record that a cancel found.
type before struct {
	record  store.Record
	existed bool
}

// cancel makes the key a tombstone as part of tx, whose lock timeout it leaves
// as it was. If it fails, tx has failed. With asPool its statements do not run with the settings of tx.
func (s *Store) cancel(ctx context.Context, tx pgx.Tx, req store.CancelRequest, asPool []pgkit.Statement) (before, error) {
	theirs, err := s.setLockTimeout(ctx, tx, pgkit.Milliseconds(s.patience(ctx)), asPool...)
	if err != nil {
		return before{}, err
	}
	b, err := s.lockOrInsert(ctx, tx, req)
	if err != nil {
		return before{}, err
	}
	if b.existed && (cancellable(b.record) || req.Undone && undoable(b.record)) {
		st := s.query().Cancel.Bind(pgx.NamedArgs{"key": toUUID(req.ID), "token": toUUID(req.Token), "keep": req.Keep})
		if _, err := pgkit.One(ctx, tx, st, pgx.RowTo[bool]); err != nil {
			return before{}, err
		}
		if b.record.State == store.StateUnknown || b.record.State == store.StateQuarantined {
			if err := s.dropAttention(ctx, tx, b.record); err != nil {
				return before{}, err
			}
		}
	}
	if len(asPool) > 0 {
		asPool = []pgkit.Statement{s.query().AsHandler.Bind(nil)}
	}
	_, err = s.setLockTimeout(ctx, tx, theirs, asPool...)
	return b, err
}

// patience is how long a cancel waits for a lock: Config.LockTimeout, but less than ctx lasts. The end of ctx would break
// the connection, and nobody would learn that the key is locked.
func (s *Store) patience(ctx context.Context) time.Duration {
	within := s.cfg.LockTimeout
	if end, ok := ctx.Deadline(); ok {
		within = max(min(within, time.Until(end)*4/5), time.Millisecond)
	}
	return within
}

// setLockTimeout bounds the waits of tx, and sends other settings in the same round trip.
func (s *Store) setLockTimeout(ctx context.Context, tx pgx.Tx, to string, others ...pgkit.Statement) (was string, err error) {
	batch := new(pgx.Batch)
	for _, st := range others {
		if err := st.Err(); err != nil {
			return "", err
		}
		batch.Queue(st.SQL, st.Args...)
	}
	st := s.query().SetLockTimeout.Bind(pgx.NamedArgs{"lock_timeout": to})
	batch.Queue(st.SQL, st.Args...).QueryRow(func(row pgx.Row) error { return row.Scan(&was, nil) })
	for _, setting := range st.Settings() {
		batch.Queue(setting)
	}
	err = tx.SendBatch(ctx, batch).Close()
	return was, err
}

// lockOrInsert locks the record, or inserts a tombstone if there is no record. It looks again if a
// record is inserted or swept in between.
func (s *Store) lockOrInsert(ctx context.Context, tx pgx.Tx, req store.CancelRequest) (before, error) {
	for {
		st := s.query().Lock.Bind(pgx.NamedArgs{"key": toUUID(req.ID)})
		f, err := pgkit.One(ctx, tx, st, scanFound)
		if err == nil && s.mayBeApart(f.Record) {
			f, err = pgkit.One(ctx, tx, s.readOne(req.ID), scanFound)
		}
		if err == nil {
			return before{f.Record, true}, f.damage
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return before{}, err
		}
		st = s.query().CancelAbsent.Bind(pgx.NamedArgs{"key": toUUID(req.ID), "token": toUUID(req.Token), "keep": req.Keep})
		_, err = pgkit.One(ctx, tx, st, pgx.RowTo[bool])
		if err == nil {
			return before{}, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return before{}, err
		}
	}
}

// undoable reports whether the run completed with an effect, so that it can have been undone.
func undoable(r store.Record) bool {
	return r.State == store.StateCompleted && r.Answer.Status < 400
}

// cancellable reports whether no caller has an answer, and no owner is at work.
func cancellable(r store.Record) bool {
	switch r.State {
	case store.StateCompleted, store.StateCancelled:
		return false
	case store.StateInProgress:
		return isDead(r)
	default:
		return true
	}
}

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
	query, err := queriesBySchema.For(undo.Schema, false)
	if err != nil {
		return 0, false, badArgument("Schema: %w", err)
	}
	s := &Store{cfg: Config{LockTimeout: DefaultLockTimeout}}
	s.statements.Store(query)
	b, err := s.cancel(ctx, tx, store.CancelRequest{
		ID: store.NewID(undo.Scope, undo.Namespace, forward), Token: newToken(), Keep: undo.Keep, Undone: true, // with tx
	}, nil)
	if err != nil {
		return 0, false, wrap("barrier", conflict(err))
	}
	fate, err = store.FateOf(b.record, b.existed)
	return fate, err == nil, err
}

// checkUndo checks what [Once] does not. It also fills in Keep.
func (o *OnceRequest) checkUndo(forward childkey.Key) error {
	if o.Keep == 0 {
		o.Keep = store.DefaultAuditRetention
	}
	switch {
	case forward.IsZero():
		return badArgument("forward is the zero Key")
	case forward == o.Key:
		return badArgument("the undo has the key of the forward call, and needs one of its own")
	case o.Name == "":
		return badArgument("OnceRequest.Name is empty")
	}
	return nil
}
