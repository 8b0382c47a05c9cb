package pgjournal

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server/pgkit"
)

// statements makes the statements of the two writes that every step needs.
type statements struct {
	query       *queries
	lockTimeout string
}

// An owned write is what an owner asks for, with its entries as they are stored.
type owned struct {
	saga.Owner
	saga.Write

	log   []byte
	large [][]byte // results for the side table
}

func newOwned(o saga.Owner, w saga.Write) owned {
	log, large := logOf(w.Entries, w.Revision)
	if w.Status.Final() {
		log = endLog(log)
	}
	return owned{o, w, log, large}
}

func (s statements) start(req saga.StartRequest) pgkit.Statement {
	args := startArgs(req)
	args["engine"], args["fence"], args["lock_timeout"] = uuid(req.Engine), firstFence(req), s.lockTimeout
	return s.query.start.Bind(args)
}

func startArgs(req saga.StartRequest) pgx.NamedArgs {
	return pgx.NamedArgs{
		"id": uuid(req.ID), "plan": req.Plan[:], "input_hash": req.InputHash[:], "name": req.Name, "version": int32(req.Version), //nolint:gosec // checkStart bounds it
		"scope": req.Scope, "key": req.Key.String(), "input": present(req.Input),
	}
}

// firstFence is 0 where nobody owns the saga yet.
func firstFence(req saga.StartRequest) int64 {
	if req.Engine.IsZero() {
		return 0
	}
	return 1
}

// completes reports whether the write says no more than that the saga is completed.
func (w owned) completes() bool {
	return w.Status == saga.Completed && w.Cause == nil && w.StuckOn == nil && w.WakeAt.IsZero() && w.DeadlineAt.IsZero()
}

func (s statements) append(w owned) pgkit.Statement {
	if w.completes() {
		return s.finish(w)
	}
	return s.query.appendOne.Bind(s.appendArgs(w))
}

func (s statements) finish(w owned) pgkit.Statement {
	return s.query.finish.Bind(pgx.NamedArgs{
		"id": uuid(w.ID), "engine": uuid(w.Engine), "fence": w.Fence, "revision": w.Revision, "entries": w.log,
		"result": w.Result, "keep": w.Keep, "lock_timeout": s.lockTimeout,
	})
}

func (s statements) park(w owned) pgkit.Statement {
	return s.query.park.Bind(pgx.NamedArgs{
		"id": uuid(w.ID), "engine": uuid(w.Engine), "fence": w.Fence, "revision": w.Revision,
		"park": packFailure(w.Park), "lock_timeout": s.lockTimeout,
	})
}

func (s statements) appendLarge(w owned) pgkit.Statement {
	args := s.appendArgs(w)
	args["large"] = w.large
	return s.query.appendLarge.Bind(args)
}

func (s statements) appendArgs(w owned) pgx.NamedArgs {
	return pgx.NamedArgs{
		"id": uuid(w.ID), "engine": uuid(w.Engine), "fence": w.Fence, "revision": w.Revision, "entries": w.log,
		"status": statusOrNull(w.Status), "deadline_at": timestamp(w.DeadlineAt), "wake_at": timestamp(w.WakeAt),
		"cause": packFailure(w.Cause), "stuck_on": packFailure(w.StuckOn), "result": w.Result, "keep": w.Keep,
		"lock_timeout": s.lockTimeout,
	}
}

// present makes nil, which would be a null, an empty value.
func present(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

func statusOrNull(s saga.Status) pgtype.Int2 { return pgtype.Int2{Int16: int16(s), Valid: s != 0} }

func uuid[T saga.ID | saga.EngineID](b T) pgtype.UUID { return pgtype.UUID{Bytes: b, Valid: true} }

// timestamp makes the zero time a null.
func timestamp(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}
