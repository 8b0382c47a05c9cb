package pgjournal

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/saga/journal"
)

// A stored saga is a record as its row has it: results in the side table are still
// missing.
type stored struct {
	journal.Record

	missing map[place]int // to which entry each belongs
	damage  damage        // that Corrupt was made from
}

// scanStored reads the time now and the columns of query/columns/record.sql.
func (s sealer) scanStored(row pgx.CollectableRow) (stored, error) {
	c := &columns{sealer: s}
	if err := row.Scan(c.targets()...); err != nil {
		return stored{}, err
	}
	return c.toStored(), nil
}

// scanClaimed is scanStored for a saga that was just claimed. The last column tells whether the owner
// before left it clean: the saga's own column is already that of the new owner.
func (s sealer) scanClaimed(row pgx.CollectableRow) (stored, error) {
	c := &columns{sealer: s}
	if err := row.Scan(append(c.targets(), &c.clean)...); err != nil {
		return stored{}, err
	}
	return c.toStored(), nil
}

// scanListed is scanStored for a saga without its input and its result.
func (s sealer) scanListed(row pgx.CollectableRow) (stored, error) {
	c := &columns{sealer: s}
	all := c.targets()
	if err := row.Scan(all[:len(all)-2]...); err != nil {
		return stored{}, err
	}
	return c.toStored(), nil
}

// scanBrief reads the time now, the columns of query/columns/outline.sql, and why the saga failed.
func (s sealer) scanBrief(row pgx.CollectableRow) (journal.Record, error) {
	c := &columns{sealer: s}
	all := c.targets()
	if err := row.Scan(all[:len(all)-6]...); err != nil {
		return journal.Record{}, err
	}
	return hideContent(c.toStoredBy((*columns).unpackBrief).Record), nil
}

// scanOutline reads the time now, and the columns of query/columns/outline.sql.
func (s sealer) scanOutline(row pgx.CollectableRow) (journal.Record, error) {
	c := &columns{sealer: s}
	all := c.targets()
	if err := row.Scan(all[:len(all)-8]...); err != nil {
		return journal.Record{}, err
	}
	return c.toStoredBy((*columns).unpackBrief).Record, nil
}

// A found saga also tells whether the server's commits wait for a standby.
type found struct {
	stored

	synchronous bool
}

func (s sealer) scanFound(row pgx.CollectableRow) (f found, err error) {
	c := &columns{sealer: s}
	if err := row.Scan(append(c.targets(), &f.synchronous)...); err != nil {
		return f, err
	}
	f.stored = c.toStored()
	return f, nil
}

// deferredEngine stands in the rows of deferred sagas for the engine.
var deferredEngine = journal.EngineID{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}

// columns takes one row.
type columns struct {
	sealer sealer

	id, engine                                                                      pgtype.UUID
	plan, inputHash, input                                                          []byte
	name, scope, key                                                                string
	version                                                                         int32
	fence, revision                                                                 int64
	status                                                                          int16
	wakes, recoveryAttempts                                                         int32
	cancel, clean                                                                   bool
	now                                                                             time.Time
	createdAt, firstClaimed, deadline, failed, resumed, wake, finishedAt, expiresAt pgtype.Timestamptz
	entries, cause, stuckOn, result                                                 []byte
}

// targets are the time now, and the columns of a saga in the order of query/columns. A statement that
// returns fewer leaves the last ones out.
func (c *columns) targets() []any {
	return []any{
		&c.now,
		&c.id, &c.engine, &c.plan, &c.name, &c.version,
		&c.fence, &c.revision, &c.wakes, &c.status, &c.recoveryAttempts, &c.cancel, &c.clean,
		&c.createdAt, &c.firstClaimed, &c.deadline, &c.failed, &c.resumed, &c.wake, &c.finishedAt, &c.expiresAt,
		&c.cause, &c.stuckOn,
		&c.inputHash, &c.scope, &c.key, &c.entries,
		&c.input, &c.result,
	}
}

// toStored returns what can be read. Corrupt describes the parts that cannot be read. So a damaged
// saga is seen, and other sagas can still be read.
func (c *columns) toStored() stored { return c.toStoredBy((*columns).unpack) }

// toStoredBy reads the columns that need no unpacking, and has unpack read those of the others that
// the statement returns.
func (c *columns) toStoredBy(unpack func(*columns, *stored)) stored {
	s := stored{Record: journal.Record{
		ID: c.id.Bytes, Engine: c.engine.Bytes, Scope: c.scope, Name: c.name, Version: int(c.version),
		Fence: c.fence, Revision: c.revision, Wakes: int64(c.wakes), RecoveryAttempts: int(c.recoveryAttempts), Cancel: c.cancel, Clean: c.clean,
		Times: journal.Times{
			Now: c.now.UTC(), CreatedAt: fromTimestamp(c.createdAt), FirstClaimedAt: fromTimestamp(c.firstClaimed),
			FailedAt: fromTimestamp(c.failed), ResumedAt: fromTimestamp(c.resumed), FinishedAt: fromTimestamp(c.finishedAt),
			ExpiresAt: fromTimestamp(c.expiresAt), WakeAt: fromTimestamp(c.wake), DeadlineAt: fromTimestamp(c.deadline),
		},
	}}
	unpack(c, &s)
	if !s.Engine.IsZero() {
		s.WakeAt = time.Time{} // wake.sql left it for the next write
	}
	s.Corrupt = s.damage.toError(s.ID)
	return s
}

func fromTimestamp(t pgtype.Timestamptz) time.Time {
	switch {
	case !t.Valid:
		return time.Time{}
	case t.InfinityModifier == pgtype.Infinity:
		return endOfTime
	}
	return t.Time.UTC()
}

// endOfTime is after every time that a database has. A list of sagas goes on behind it.
var endOfTime = time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)
