package pgjournal

import (
	"slices"
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
	stored struct{ cause, stuckOn, deferred, result []byte }
}

func (s sealer) sealWrite(o journal.Owner, w journal.Write) (owned, error) {
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
		{&sealed.stored.deferred, packFailure(w.Defer), kindDeferred},
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

func (s sealer) sealStart(req journal.StartRequest) (sealed starting, err error) {
	sealed.StartRequest = req
	if sealed.input, err = s.seal(addTrace(req.Trace, toBytea(req.Input)), kindInput, req.ID); err != nil {
		return sealed, err
	}
	sealed.inputHash, err = s.seal(req.InputHash[:], kindInputHash, req.ID)
	return sealed, err
}

var startColumns = []column[starting]{
	col("id", func(r *starting) pgtype.UUID { return toUUID(r.ID) }),
	col("engine", func(r *starting) pgtype.UUID { return toUUID(r.Engine) }),
	col("plan", func(r *starting) []byte { return r.Plan[:] }),
	col("input_hash", func(r *starting) []byte { return r.inputHash }),
	col("name", func(r *starting) string { return r.Name }),
	col("version", func(r *starting) int32 { return int32(r.Version) }), //nolint:gosec // checkStart bounds it
	col("scope", func(r *starting) string { return r.Scope }),
	col("key", func(r *starting) string { return r.Key.String() }),
	col("input", func(r *starting) []byte { return r.input }),
	col("fence", func(r *starting) int64 { return firstFence(r.StartRequest) }),
	col("start_at", func(r *starting) pgtype.Timestamptz { return toTimestamp(r.At) }),
}

func (s statements) start(reqs ...starting) pgkit.Statement {
	return bind(s.query.startForm, startColumns, reqs, s.lockTimeout)
}

// A starter tells which of several requests stored a saga.
type starter struct{ id, engine [16]byte }

// scanStarted reads a row of [statements.start].
func scanStarted(row pgx.CollectableRow) (by starter, at time.Time, err error) {
	var id, engine pgtype.UUID
	err = row.Scan(&id, &engine, &at)
	return starter{id.Bytes, engine.Bytes}, at, err
}

// firstFence is 0 where nobody owns the saga yet.
func firstFence(req journal.StartRequest) int64 {
	if req.Engine.IsZero() {
		return 0
	}
	return 1
}

// isCompletion reports whether the write says no more than that the saga is completed.
func (o owned) isCompletion() bool {
	return o.Status == journal.Completed && o.Cause == nil && o.StuckOn == nil && o.WakeAt.IsZero() && o.DeadlineAt.IsZero()
}

var finishColumns = []column[owned]{
	col("id", func(w *owned) pgtype.UUID { return toUUID(w.ID) }),
	col("engine", func(w *owned) pgtype.UUID { return toUUID(w.Engine) }),
	col("fence", func(w *owned) int64 { return w.Fence }),
	col("revision", func(w *owned) int64 { return w.Revision }),
	col("entries", func(w *owned) []byte { return w.log }),
	col("result", func(w *owned) []byte { return w.stored.result }),
	col("keep", func(w *owned) pgtype.Interval { return fromNow(w.Keep, w.Status.Final()) }),
	newNumberColumn[owned](),
}

var appendColumns = append([]column[owned]{
	col("status", func(w *owned) pgtype.Int2 { return statusOrNull(w.Status) }),
	col("deadline_at", func(w *owned) pgtype.Timestamptz { return toTimestamp(w.DeadlineAt) }),
	col("wake_at", func(w *owned) pgtype.Timestamptz { return toTimestamp(w.WakeAt) }),
	col("cause", func(w *owned) []byte { return w.stored.cause }),
	col("stuck_on", func(w *owned) []byte { return w.stored.stuckOn }),
	col("fails", func(w *owned) pgtype.Interval { return fromNow(0, w.Status == journal.Compensating) }),
	col("sleeps", func(w *owned) pgtype.Interval { return fromNow(0, !w.WakeAt.IsZero()) }),
	col("ends", func(w *owned) pgtype.Interval { return fromNow(0, w.Status > journal.Compensating) }),
}, finishColumns...)

func (s statements) append(writes ...owned) pgkit.Statement {
	if slices.ContainsFunc(writes, func(w owned) bool { return !w.isCompletion() }) {
		return bind(s.query.appendForm, appendColumns, writes, s.lockTimeout)
	}
	return bind(s.query.finishForm, finishColumns, writes, s.lockTimeout)
}

// scanAppended reads a row of [statements.append]: the index of a write that was carried out.
func scanAppended(row pgx.CollectableRow) (i int, ok bool, err error) {
	err = row.Scan(&i)
	return i - 1, true, err
}

// appendResults writes the large results, behind append in its transaction.
func (s statements) appendResults(w owned) pgkit.Statement {
	return s.query.AppendResults.Bind(pgx.NamedArgs{"id": toUUID(w.ID), "fence": w.Fence, "revision": w.Revision, "large": w.large})
}

func (s statements) deferSaga(w owned) pgkit.Statement {
	return s.query.Defer.Bind(pgx.NamedArgs{
		"id": toUUID(w.ID), "engine": toUUID(w.Engine), "fence": w.Fence, "revision": w.Revision,
		"deferred": w.stored.deferred, "lock_timeout": s.lockTimeout,
	})
}

// fromNow is a time from now, or null.
func fromNow(d time.Duration, valid bool) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: valid}
}

// toBytea makes nil, which would be a null, an empty value.
func toBytea(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

func statusOrNull(s journal.Status) pgtype.Int2 { return pgtype.Int2{Int16: int16(s), Valid: s != 0} }

func toUUID[T journal.ID | journal.EngineID](b T) pgtype.UUID {
	return pgtype.UUID{Bytes: b, Valid: true}
}

// toTimestamp makes the zero time a null.
func toTimestamp(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}
