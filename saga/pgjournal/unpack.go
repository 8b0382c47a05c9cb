package pgjournal

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga/journal"
)

// damage lists the parts of a row that cannot be read. It holds no content of the row.
type damage []error

// note adds an error, unless it is nil.
func (d *damage) note(err error) {
	if err != nil {
		*d = append(*d, err)
	}
}

// toError returns all noted errors as one error, or nil without any. The error wraps ErrNewer only if
// every noted error does.
func (d damage) toError(id journal.ID) error {
	if len(d) == 0 {
		return nil
	}
	kind, all := journal.ErrNewer, ""
	for i, err := range d {
		if !errors.Is(err, errNewer) {
			kind = journal.ErrCorrupt
		}
		if i > 0 {
			all += "; "
		}
		all += err.Error()
	}
	return fmt.Errorf("%w: saga %v: %s", kind, id, all)
}

// unpack reads the columns that can hold values that no version of this package writes, and notes
// their errors. It continues after a damaged column, so that a person sees the rest.
func (c *columns) unpack(s *stored) {
	found := &s.damage
	c.unpackIdentity(s, found)
	c.unpackInput(s, found)
	c.unpackStanding(s, found)
	c.checkTimes(found)
	c.unpackFailures(s, found)
	found.note(c.unpackEntries(s))
	var err error
	if s.Result, err = c.sealer.open(c.result, kindResult, s.ID); err != nil {
		found.note(fmt.Errorf("result %w", err))
	}
}

// unpackIdentity reads the key and the plan of a saga. The ID is made from scope, name and key.
func (c *columns) unpackIdentity(s *stored, found *damage) {
	var err error
	if s.Key, err = childkey.Parse(c.key); err != nil {
		found.note(fmt.Errorf("key of %d bytes", len(c.key))) // without their content
	} else if journal.IDOf(s.Scope, s.Name, s.Key) != s.ID {
		found.note(errors.New("scope, name and key are not those of the ID"))
	}
	c.unpackPlan(s, found)
}

func (c *columns) unpackPlan(s *stored, found *damage) {
	if copy(s.Plan[:], c.plan) != len(s.Plan) || len(c.plan) != len(s.Plan) {
		found.note(fmt.Errorf("plan of %d bytes", len(c.plan)))
	}
}

// unpackInput reads the input and its hash. The input is empty in a list.
func (c *columns) unpackInput(s *stored, found *damage) {
	hash, err := c.sealer.open(c.inputHash, kindInputHash, s.ID)
	switch {
	case err != nil:
		found.note(fmt.Errorf("input_hash %w", err))
	case copy(s.InputHash[:], hash) != len(s.InputHash) || len(hash) != len(s.InputHash):
		found.note(fmt.Errorf("input_hash of %d bytes", len(hash)))
	}
	if len(c.input) == 0 {
		s.Input = c.input
		return
	}
	if s.Input, err = c.sealer.open(c.input, kindInput, s.ID); err != nil {
		found.note(fmt.Errorf("input %w", err))
	} else if s.Trace, s.Input, err = splitTrace(s.Input); err != nil {
		found.note(err)
	} else if len(hash) == len(s.InputHash) && sha256.Sum256(s.Input) != s.InputHash {
		found.note(errors.New("input_hash is not that of the input"))
	}
}

// unpackStanding reads the state of the saga. An unknown status stays the zero Status.
func (c *columns) unpackStanding(s *stored, found *damage) {
	if c.status < int16(journal.Running) || c.status > int16(journal.Abandoned) {
		found.note(fmt.Errorf("status %d", c.status))
	} else {
		s.Status = journal.Status(c.status)
		if s.Status.Final() != c.expiresAt.Valid {
			found.note(fmt.Errorf("expires_at of a saga that is %v", s.Status))
		}
	}
	unowned := s.Engine.IsZero() || s.Engine == deferredEngine
	if c.version < 0 || c.fence < 0 || c.fence == 0 && !unowned || c.revision < 1 || c.recoveryAttempts < 0 {
		found.note(fmt.Errorf("version %d, fence %d, revision %d, recovery_attempts %d", c.version, c.fence, c.revision, c.recoveryAttempts))
	}
}

// checkTimes finds infinite times. This package never writes them.
func (c *columns) checkTimes(found *damage) {
	for _, t := range []struct {
		column string
		at     pgtype.Timestamptz
	}{
		{"created_at", c.createdAt}, {"first_claimed_at", c.firstClaimed}, {"deadline_at", c.deadline}, {"failed_at", c.failed},
		{"resumed_at", c.resumed}, {"wake_at", c.wake}, {"finished_at", c.finishedAt}, {"expires_at", c.expiresAt},
	} {
		if t.at.Valid && t.at.InfinityModifier != pgtype.Finite {
			found.note(fmt.Errorf("%s is %v", t.column, t.at.InfinityModifier))
		}
	}
}

func (c *columns) unpackFailures(s *stored, found *damage) {
	var err error
	if s.Cause, err = c.sealer.failure(s.ID, c.cause, kindCause); err != nil {
		found.note(fmt.Errorf("cause %w", err))
	}
	if s.Engine != deferredEngine {
		if s.StuckOn, err = c.sealer.failure(s.ID, c.stuckOn, kindStuckOn); err != nil {
			found.note(fmt.Errorf("stuck_on %w", err))
		}
		return
	}
	// A process without the codec defers sealed sagas, with a reason that is not sealed.
	s.Engine = journal.EngineID{}
	reason := c.sealer
	reason.acceptPlain = true
	if s.Deferred, err = reason.failure(s.ID, c.stuckOn, kindDeferred); err != nil {
		found.note(fmt.Errorf("stuck_on %w", err))
	}
	s.Deferred = cmp.Or(s.Deferred, &journal.Failure{Reason: journal.ReasonNewer})
}

// failure opens a failure and reads it.
func (s sealer) failure(id journal.ID, data []byte, k kind) (*journal.Failure, error) {
	plain, err := s.open(data, k, id)
	if err != nil {
		return nil, err
	}
	return unpackFailure(plain)
}

func (c *columns) unpackEntries(s *stored) error {
	log, ended, err := c.sealer.parseLog(s.ID, c.entries)
	if err != nil {
		return err
	}
	if s.Status.Final() && !ended {
		return fmt.Errorf("%d bytes of entries end too early", len(c.entries))
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
