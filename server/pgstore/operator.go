package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// List implements [store.OperatorStore]. Unknown and quarantined keys and dead letters have notes in a
// table of their own, and opaque records have an index. For all other requests List reads the whole
// table. With a Parent it also does, unless [AddReaderIndexes] has made the index of children.
func (s *Store) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	if req.Limit <= 0 {
		return nil, fmt.Errorf("%w: limit %d is not positive", ErrArgument, req.Limit)
	}
	if err := checkLength("Running", req.Running); err != nil {
		return nil, err
	}
	all, err := pgkit.All(ctx, s.db.Pool, s.listing(req), scanListed)
	return all, wrap("list", err)
}

// listing returns the statement that answers req.
func (s *Store) listing(req store.ListRequest) pgkit.Statement {
	args := listArgs(req)
	if req.Parent != (store.ID{}) {
		args["parent"] = uuid(req.Parent)
		return s.query.listChildren.Bind(args)
	}
	if hasNotes(req) {
		return s.query.listAttention.Bind(args)
	}
	args["running"] = req.Running
	if req.Effect == store.Opaque {
		delete(args, "effect")
		return s.query.listOpaque.Bind(args)
	}
	return s.query.list.Bind(args)
}

// listArgs are the arguments of every list.
func listArgs(req store.ListRequest) pgx.NamedArgs {
	return pgx.NamedArgs{
		"effect": int16(req.Effect), "states": states(req), "route": req.Route, "limit": int64(req.Limit),
		"after_created_at": after(req.After.CreatedAt), "after_key": uuid(req.After.ID),
	}
}

func states(req store.ListRequest) []int16 {
	of := req.States
	switch {
	case req.DeadLetters:
		of = []store.State{store.StateCompleted}
	case len(of) > 0:
	case req.Parent != store.ID{}:
		of = []store.State{
			store.StateInProgress, store.StateCompleted, store.StateReleased,
			store.StateUnknown, store.StateQuarantined, store.StateCancelled,
		}
	default:
		of = []store.State{store.StateUnknown, store.StateQuarantined, store.StateInProgress}
	}
	n := make([]int16, len(of))
	for i, state := range of {
		n[i] = int16(state)
	}
	return n
}

// after returns a time before all others if t is zero: the page to read is the first.
func after(t time.Time) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}
	}
	return timestamp(t)
}

// Resolve implements [store.OperatorStore], in a transaction of two statements if it does
// anything. The server itself ends a statement after 10 s, or earlier if ctx ends earlier.
func (s *Store) Resolve(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
	if err := checkResolve(req); err != nil {
		return store.Record{}, false, err
	}
	args := pgx.NamedArgs{
		"key": uuid(req.ID), "from": req.From, "to": int16(req.To), "token": uuid(req.Token),
		"recovery_attempts": int32(req.RecoveryAttempts), "maybe_ran": req.MaybeRan, //nolint:gosec // checkResolve bounds it
		"status": pgtype.Int4{}, "envelope": []byte(nil), "replay_for": pgtype.Interval{}, "keep": pgtype.Interval{},
		"keep_answer": intervalOrNull(req.KeepAnswer),
		"verb":        string(req.By.Verb), "actor": req.By.Actor, "reason": req.By.Reason, "lock_timeout": s.db.Briefly,
	}
	switch req.To {
	case store.StateCompleted:
		args["status"] = pgtype.Int4{Int32: int32(req.Answer.Status), Valid: true} //nolint:gosec // checkResolve bounds it
		args["envelope"], args["replay_for"] = req.Answer.Envelope, interval(req.ReplayFor)
	case store.StateCancelled:
		args["keep"] = interval(req.Keep)
	}
	st := s.query.resolve.Bind(args)
	r, ok, err := s.patiently(ctx, func() (store.Record, bool, error) { return s.moveBounded(ctx, req.ID, st) })
	if err == nil && !ok && r.Token == req.Token && r.Fence == req.From+1 {
		ok = true // done before, and its answer was lost
	}
	return r, ok, wrap("resolve", err)
}

// Forget implements [store.OperatorStore], in a transaction of two statements if it does anything. The server ends a
// statement as for Resolve. If
// answers are in partitions, it takes a transaction of four. A damaged record can be forgotten: it is returned as
// far as it can be read.
func (s *Store) Forget(ctx context.Context, id store.ID, from int64, by store.Audit) (store.Record, bool, error) {
	st := s.query.forget.Bind(pgx.NamedArgs{
		"key": uuid(id), "from": from, "lock_timeout": s.db.Briefly,
		"verb": string(by.Verb), "actor": by.Actor, "reason": by.Reason,
	})
	r, ok, err := s.patiently(ctx, func() (store.Record, bool, error) {
		if s.cfg.Answers != AnswersInline {
			return s.moveLocked(ctx, id, st)
		}
		return s.moveBounded(ctx, id, st)
	})
	if ok && errors.Is(err, store.ErrRecordUnreadable) {
		err = nil // the damage does not matter for a record that is forgotten
	}
	return r, ok, wrap("forget", err)
}

// moveLocked is move with the record locked before. Otherwise st would see a partition as it was
// before a wait for the lock, and would miss the answer that it waited for.
func (s *Store) moveLocked(ctx context.Context, id store.ID, st pgkit.Statement) (store.Record, bool, error) {
	return s.moveBy(ctx, id, store.Token{}, func() (moved, error) {
		return pgkit.TxBounded(ctx, s.db.Writer, pgkit.StatementLimit(ctx, verbTime), func(ctx context.Context, tx pgx.Tx) (m moved, err error) {
			if _, err := s.setLockTimeout(ctx, tx, s.db.Briefly); err != nil {
				return m, err
			}
			_, err = pgkit.One(ctx, tx, s.query.lock.Bind(pgx.NamedArgs{"key": uuid(id)}), scanFound)
			if errors.Is(err, pgx.ErrNoRows) {
				return m, nil
			}
			if err != nil {
				return m, err
			}
			return moveIn(ctx, tx, st, s.unnoted)
		})
	})
}

// Defer implements [store.OperatorStore], in one statement.
func (s *Store) Defer(ctx context.Context, id store.ID, from int64, d time.Duration) (bool, error) {
	if err := checkLease(d); err != nil {
		return false, err
	}
	st := s.query.deferral.Bind(pgx.NamedArgs{"key": uuid(id), "from": from, "lease": d, "lock_timeout": s.db.LockTimeout})
	won, err := pgkit.RetryConflict(ctx, func() (bool, error) {
		_, ok, err := pgkit.Row(ctx, s.db.Writer, st, pgx.RowTo[bool])
		return ok, err
	})
	if err != nil || won {
		return won, wrap("defer", err)
	}
	_, err = s.Read(ctx, id) // not found, or somebody else's by now
	return false, err
}

// AuditLog implements [store.OperatorStore].
func (s *Store) AuditLog(ctx context.Context, id store.ID, limit int) ([]store.AuditEntry, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("%w: limit %d is not positive", ErrArgument, limit)
	}
	key := uuid(id)
	key.Valid = id != store.ID{}
	st := s.query.auditLog.Bind(pgx.NamedArgs{"key": key, "limit": int64(limit)})
	found, err := pgkit.All(ctx, s.db.Pool, st, scanAuditEntry)
	return found, wrap("audit log", err)
}

func scanAuditEntry(row pgx.CollectableRow) (e store.AuditEntry, err error) {
	var key pgtype.UUID
	var verb string
	var from, to int16
	if err := row.Scan(&e.Number, &e.At, &key, &verb, &e.Actor, &e.Reason, &from, &to, &e.Fence); err != nil {
		return e, err
	}
	if from < 0 || from > math.MaxUint8 || to < 0 || to > math.MaxUint8 {
		return e, errors.New("audit entry of no known state")
	}
	e.At, e.ID, e.Verb = e.At.UTC(), key.Bytes, store.Verb(verb)
	e.From, e.To = store.State(from), store.State(to)
	return e, nil
}

func checkResolve(req store.ResolveRequest) error {
	if err := checkLength("Keep", req.Keep); err != nil {
		return err
	}
	if req.RecoveryAttempts < 0 || req.RecoveryAttempts > math.MaxInt32 {
		return fmt.Errorf("%w: RecoveryAttempts %d", ErrArgument, req.RecoveryAttempts)
	}
	switch req.To {
	case store.StateReleased, store.StateCancelled:
		return nil
	case store.StateCompleted:
		return checkSettlement(store.Settlement{State: req.To, Answer: req.Answer, ReplayFor: req.ReplayFor, KeepAnswer: req.KeepAnswer})
	default:
		return fmt.Errorf("%w: cannot resolve to State %d", ErrArgument, req.To)
	}
}
