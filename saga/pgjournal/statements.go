package pgjournal

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga/journal"
)

// statements makes the statements of the two writes that every step needs.
type statements struct {
	query       *queries
	lockTimeout string
}

// An owned write is what an owner asks for, with its parts as they are stored.
type owned struct {
	journal.Owner
	journal.Write

	log    []byte
	large  [][]byte // results for the side table
	stored struct{ cause, stuckOn, park, result []byte }
}

func (s sealer) owned(o journal.Owner, w journal.Write) (owned, error) {
	sealed := owned{Owner: o, Write: w}
	var err error
	if sealed.log, sealed.large, err = s.logOf(o.ID, w.Entries, w.Revision); err != nil {
		return sealed, err
	}
	if w.Status.Final() {
		sealed.log = endLog(sealed.log)
	}
	for _, f := range []struct {
		into  *[]byte
		plain []byte
		kind  kind
	}{
		{&sealed.stored.cause, packFailure(w.Cause), kindCause},
		{&sealed.stored.stuckOn, packFailure(w.StuckOn), kindStuckOn},
		{&sealed.stored.park, packFailure(w.Park), kindParked},
		{&sealed.stored.result, w.Result, kindResult},
	} {
		if *f.into, err = s.seal(f.plain, f.kind, o.ID); err != nil {
			return sealed, err
		}
	}
	return sealed, nil
}

// A starting saga is one that somebody asks for, with its parts as they are stored.
type starting struct {
	journal.StartRequest

	input, inputHash []byte
}

func (s sealer) starting(req journal.StartRequest) (sealed starting, err error) {
	sealed.StartRequest = req
	if sealed.input, err = s.seal(present(req.Input), kindInput, req.ID); err != nil {
		return sealed, err
	}
	sealed.inputHash, err = s.seal(req.InputHash[:], kindInputHash, req.ID)
	return sealed, err
}

func (s statements) start(req starting) pgkit.Statement {
	args := startArgs(req)
	args["engine"], args["fence"], args["lock_timeout"] = uuid(req.Engine), firstFence(req.StartRequest), s.lockTimeout
	return s.query.start.Bind(args)
}

func startArgs(req starting) pgx.NamedArgs {
	return pgx.NamedArgs{
		"id": uuid(req.ID), "plan": req.Plan[:], "input_hash": req.inputHash, "name": req.Name, "version": int32(req.Version), //nolint:gosec // checkStart bounds it
		"scope": req.Scope, "key": req.Key.String(), "input": req.input,
	}
}

// firstFence is 0 where nobody owns the saga yet.
func firstFence(req journal.StartRequest) int64 {
	if req.Engine.IsZero() {
		return 0
	}
	return 1
}

// completes reports whether the write says no more than that the saga is completed.
func (w owned) completes() bool {
	return w.Status == journal.Completed && w.Cause == nil && w.StuckOn == nil && w.WakeAt.IsZero() && w.DeadlineAt.IsZero()
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
		"result": w.stored.result, "keep": w.Keep, "lock_timeout": s.lockTimeout,
	})
}

func (s statements) park(w owned) pgkit.Statement {
	return s.query.park.Bind(pgx.NamedArgs{
		"id": uuid(w.ID), "engine": uuid(w.Engine), "fence": w.Fence, "revision": w.Revision,
		"park": w.stored.park, "lock_timeout": s.lockTimeout,
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
		"cause": w.stored.cause, "stuck_on": w.stored.stuckOn, "result": w.stored.result, "keep": w.Keep,
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

func statusOrNull(s journal.Status) pgtype.Int2 { return pgtype.Int2{Int16: int16(s), Valid: s != 0} }

func uuid[T journal.ID | journal.EngineID](b T) pgtype.UUID {
	return pgtype.UUID{Bytes: b, Valid: true}
}

// timestamp makes the zero time a null.
func timestamp(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}
