package pgjournal

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
)

// A stored saga is a record as its row has it: results in the side table are still
// missing.
type stored struct {
	saga.Record

	missing map[place]int // to which entry each belongs
}

// scanStored reads the columns that the statements return for a saga, in their
// order.
func scanStored(row pgx.CollectableRow) (stored, error) {
	c := new(columns)
	if err := row.Scan(c.targets()...); err != nil {
		return stored{}, err
	}
	return c.stored(), nil
}

// A found saga also tells whether the server's commits wait for a standby.
type found struct {
	stored

	synchronous bool
}

func scanFound(row pgx.CollectableRow) (f found, err error) {
	c := new(columns)
	if err := row.Scan(append(c.targets(), &f.synchronous)...); err != nil {
		return f, err
	}
	f.stored = c.stored()
	return f, nil
}

// parkedEngine stands in the rows of parked sagas for the engine.
var parkedEngine = saga.EngineID{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}

// columns takes one row.
type columns struct {
	id, engine                                                           pgtype.UUID
	plan, inputHash, input                                               []byte
	name, scope, key                                                     string
	version                                                              int32
	fence, revision                                                      int64
	status                                                               int16
	deaths                                                               int32
	cancel                                                               bool
	createdAt, now                                                       time.Time
	firstClaimed, deadline, turned, resumed, wake, finishedAt, expiresAt pgtype.Timestamptz
	entries, cause, stuckOn, result                                      []byte
}

func (c *columns) targets() []any {
	return []any{
		&c.id, &c.engine, &c.plan, &c.inputHash, &c.name, &c.version, &c.scope, &c.key, &c.input,
		&c.fence, &c.revision, &c.status, &c.deaths, &c.cancel,
		&c.createdAt, &c.firstClaimed, &c.deadline, &c.turned, &c.resumed, &c.wake, &c.finishedAt, &c.expiresAt,
		&c.entries, &c.cause, &c.stuckOn, &c.result, &c.now,
	}
}

// stored returns what can be read. What cannot is said in Corrupt, so that one
// damaged saga is seen, and keeps no other from being read.
func (c *columns) stored() stored {
	s := stored{Record: saga.Record{
		ID: c.id.Bytes, Engine: c.engine.Bytes, Scope: c.scope, Name: c.name, Version: int(c.version),
		Input: c.input, Result: c.result,
		Fence: c.fence, Revision: c.revision, Deaths: int(c.deaths), Cancel: c.cancel,
		Status: saga.Status(c.status), //nolint:gosec // unpack bounds it
		Turned: fromTimestamp(c.turned), WakeAt: fromTimestamp(c.wake), DeadlineAt: fromTimestamp(c.deadline),
		Now: c.now.UTC(), CreatedAt: c.createdAt.UTC(), FirstClaimedAt: fromTimestamp(c.firstClaimed), ResumedAt: fromTimestamp(c.resumed),
		FinishedAt: fromTimestamp(c.finishedAt), ExpiresAt: fromTimestamp(c.expiresAt),
	}}
	if err := c.unpack(&s); err != nil {
		kind := saga.ErrCorrupt
		if errors.Is(err, errNewer) {
			kind = saga.ErrNewer
		}
		s.Corrupt = fmt.Errorf("%w: saga %v: %w", kind, s.ID, err)
	}
	return s
}

// unpack reads the columns that can hold what no version of this package writes.
func (c *columns) unpack(s *stored) (err error) {
	if s.Key, err = childkey.Parse(c.key); err != nil {
		return fmt.Errorf("key of %d bytes", len(c.key)) // and nothing of what they are
	}
	if c.status < int16(saga.Running) || c.status > int16(saga.Abandoned) {
		return fmt.Errorf("status %d", c.status)
	}
	if copy(s.Plan[:], c.plan) != len(c.plan) || copy(s.InputHash[:], c.inputHash) != len(c.inputHash) {
		return fmt.Errorf("plan of %d bytes, input hash of %d", len(c.plan), len(c.inputHash))
	}
	if s.Cause, err = unpackFailure(c.cause); err != nil {
		return fmt.Errorf("cause: %w", err)
	}
	if s.StuckOn, err = unpackFailure(c.stuckOn); err != nil {
		return fmt.Errorf("stuck_on: %w", err)
	}
	if s.Engine == parkedEngine {
		s.Engine, s.Parked, s.StuckOn = saga.EngineID{}, cmp.Or(s.StuckOn, &saga.Failure{Reason: saga.ReasonNewer}), nil
	}
	log, err := parseLog(c.entries)
	if err != nil {
		return err
	}
	for i, l := range log {
		s.Entries = append(s.Entries, l.Entry)
		if (l.elsewhere != place{}) {
			if s.missing == nil {
				s.missing = make(map[place]int)
			}
			s.missing[l.elsewhere] = i
		}
	}
	return nil
}

func fromTimestamp(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}
