package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgkit"
)

// List implements [server.OperatorStore]. It reads the whole table, unless it
// is asked for opaque records only: these have an index.
func (s *Store) List(ctx context.Context, req server.ListRequest) ([]server.Record, error) {
	if req.Limit <= 0 {
		return nil, fmt.Errorf("%w: limit %d is not positive", ErrArgument, req.Limit)
	}
	if err := checkLength("Running", req.Running); err != nil {
		return nil, err
	}
	args := pgx.NamedArgs{
		"states": states(req.States), "route": req.Route, "running": req.Running, "limit": int64(req.Limit),
		"after_created_at": after(req.After.CreatedAt), "after_key": uuid(req.After.ID),
	}
	query := s.query.listOpaque
	if req.Effect != server.Opaque {
		query = s.query.list
		args["effect"] = int16(req.Effect)
	}
	st := query.Bind(args)
	all, err := pgkit.All(ctx, s.pool, st, scanListed)
	return all, wrap("list", err)
}

// scanListed returns a damaged record too, as far as it can be read: a person has to see it,
// and the others.
func scanListed(row pgx.CollectableRow) (server.Record, error) {
	f, err := scanRecord(row)
	return f.Record, err
}

func states(of []server.State) []int16 {
	if len(of) == 0 {
		of = []server.State{server.StateUnknown, server.StatePoisoned, server.StateInProgress}
	}
	n := make([]int16, len(of))
	for i, state := range of {
		n[i] = int16(state)
	}
	return n
}

// after is before every time where there is no page before.
func after(t time.Time) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}
	}
	return timestamp(t)
}

// Resolve implements [server.OperatorStore], in one statement if it does
// anything.
func (s *Store) Resolve(ctx context.Context, req server.ResolveRequest) (server.Record, bool, error) {
	if err := checkResolve(req); err != nil {
		return server.Record{}, false, err
	}
	args := pgx.NamedArgs{
		"key": uuid(req.ID), "from": req.From, "to": int16(req.To), "token": uuid(req.Token),
		"deaths": int32(req.Deaths), "maybe_ran": req.MaybeRan, //nolint:gosec // checkResolve bounds it
		"status": pgtype.Int4{}, "envelope": []byte(nil), "replay_for": req.ReplayFor, "keep": req.Keep,
		"keep_answer": intervalOrNull(req.KeepAnswer),
		"verb":        string(req.By.Verb), "actor": req.By.Actor, "reason": req.By.Reason, "lock_timeout": s.briefly,
	}
	if req.To == server.StateCompleted {
		args["status"] = pgtype.Int4{Int32: int32(req.Answer.Status), Valid: true} //nolint:gosec // checkResolve bounds it
		args["envelope"] = req.Answer.Envelope
	}
	st := s.query.resolve.Bind(args)
	r, ok, err := s.patiently(ctx, func() (server.Record, bool, error) { return s.move(ctx, req.ID, st) })
	if err == nil && !ok && r.Token == req.Token && r.Fence == req.From+1 {
		ok = true // done before, and its answer was lost
	}
	return r, ok, wrap("resolve", err)
}

// Forget implements [server.OperatorStore], in one statement if it does
// anything; where answers are in partitions, in a transaction of three. A damaged record
// can be forgotten: it is returned as far as it can be read.
func (s *Store) Forget(ctx context.Context, id server.ID, from int64, by server.Audit) (server.Record, bool, error) {
	st := s.query.forget.Bind(pgx.NamedArgs{
		"key": uuid(id), "from": from, "lock_timeout": s.briefly,
		"verb": string(by.Verb), "actor": by.Actor, "reason": by.Reason,
	})
	move := s.move
	if s.cfg.Answers != AnswersInline {
		move = s.moveLocked
	}
	r, ok, err := s.patiently(ctx, func() (server.Record, bool, error) { return move(ctx, id, st) })
	if ok && errors.Is(err, server.ErrRecordUnreadable) {
		err = nil // whoever forgets a damaged record wants no more of it
	}
	return r, ok, wrap("forget", err)
}

// moveLocked is move with the record locked before: else st would see a partition as
// it was before a wait for the lock, and not the answer that was waited for.
func (s *Store) moveLocked(ctx context.Context, id server.ID, st pgkit.Statement) (server.Record, bool, error) {
	return s.moveBy(ctx, id, server.Token{}, func() (moved, error) {
		return pgkit.Tx(ctx, s.writer, func(ctx context.Context, tx pgx.Tx) (m moved, err error) {
			if _, err := s.setLockTimeout(ctx, tx, s.briefly); err != nil {
				return m, err
			}
			_, err = pgkit.One(ctx, tx, s.query.lock.Bind(pgx.NamedArgs{"key": uuid(id)}), scanFound)
			if err == nil {
				m.found, err = pgkit.One(ctx, tx, st, scanRecord)
			}
			if errors.Is(err, pgx.ErrNoRows) {
				return m, nil
			}
			m.ok = err == nil
			return m, err
		})
	})
}

// Defer implements [server.OperatorStore], in one statement.
func (s *Store) Defer(ctx context.Context, id server.ID, from int64, d time.Duration) (bool, error) {
	if err := checkLease(d); err != nil {
		return false, err
	}
	st := s.query.deferral.Bind(pgx.NamedArgs{"key": uuid(id), "from": from, "lease": d, "lock_timeout": s.lockTimeout})
	won, err := pgkit.RetryConflict(ctx, func() (bool, error) {
		_, ok, err := pgkit.Row(ctx, s.writer, st, pgx.RowTo[bool])
		return ok, err
	})
	if err != nil || won {
		return won, wrap("defer", err)
	}
	_, err = s.Read(ctx, id) // not found, or somebody else's by now
	return false, err
}

// AuditLog implements [server.OperatorStore].
func (s *Store) AuditLog(ctx context.Context, id server.ID, limit int) ([]server.AuditEntry, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("%w: limit %d is not positive", ErrArgument, limit)
	}
	key := uuid(id)
	key.Valid = id != server.ID{}
	st := s.query.auditLog.Bind(pgx.NamedArgs{"key": key, "limit": int64(limit)})
	found, err := pgkit.All(ctx, s.pool, st, scanAuditEntry)
	return found, wrap("audit log", err)
}

func scanAuditEntry(row pgx.CollectableRow) (e server.AuditEntry, err error) {
	var key pgtype.UUID
	var verb string
	var from, to int16
	if err := row.Scan(&e.At, &key, &verb, &e.Actor, &e.Reason, &from, &to, &e.Fence); err != nil {
		return e, err
	}
	if from < 0 || from > math.MaxUint8 || to < 0 || to > math.MaxUint8 {
		return e, errors.New("audit entry of no known state")
	}
	e.At, e.ID, e.Verb = e.At.UTC(), key.Bytes, server.Verb(verb)
	e.From, e.To = server.State(from), server.State(to)
	return e, nil
}

func checkResolve(req server.ResolveRequest) error {
	if err := checkLength("Keep", req.Keep); err != nil {
		return err
	}
	if req.Deaths < 0 || req.Deaths > math.MaxInt32 {
		return fmt.Errorf("%w: Deaths %d", ErrArgument, req.Deaths)
	}
	switch req.To {
	case server.StateReleased, server.StateCancelled:
		return nil
	case server.StateCompleted:
		return checkSettlement(server.Settlement{State: req.To, Answer: req.Answer, ReplayFor: req.ReplayFor, KeepAnswer: req.KeepAnswer})
	default:
		return fmt.Errorf("%w: cannot resolve to State %d", ErrArgument, req.To)
	}
}
