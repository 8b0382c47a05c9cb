package pgstore

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/server/store"
)

// A found is a record, and whether the server's commits wait for a standby.
type found struct {
	store.Record

	synchronous bool
	// damage wraps [store.ErrRecordUnreadable] if the row holds what this package never
	// writes. The record then has the values that could be read.
	//
	// It is not the error of the scan: one damaged row must not fail a statement that reads the
	// records of others too. The damage must not hide that a write was made, either.
	damage error
}

// scanRecord reads the columns that the statements return for a record, in
// their order.
func scanRecord(row pgx.CollectableRow) (found, error) {
	c := new(columns)
	all := c.targets()
	if err := row.Scan(all[1 : len(all)-1]...); err != nil {
		return found{}, err
	}
	return c.found(), nil
}

// scanOutline reads the columns of a record that the observer may read. The status of the answer is one of them. It
// returns a damaged record too, as far as it can be read: a person has to see it, and the others.
func scanOutline(row pgx.CollectableRow) (store.Record, error) {
	c := new(columns)
	if err := row.Scan(c.targets()[1:outlined]...); err != nil {
		return store.Record{}, err
	}
	return c.record(), nil
}

// scanFound is scanRecord with the column that says whether commits wait for a standby.
func scanFound(row pgx.CollectableRow) (found, error) {
	c := new(columns)
	if err := row.Scan(c.targets()[1:]...); err != nil {
		return found{}, err
	}
	return c.found(), nil
}

// scanNumberedFound is scanFound for a record with the number of its key, counted
// from 1, in front.
func scanNumberedFound(row pgx.CollectableRow) (i int, f found, err error) {
	c := new(columns)
	if err := row.Scan(c.targets()...); err != nil {
		return -1, f, err
	}
	return int(c.number) - 1, c.found(), nil
}

// columns takes one row.
type columns struct {
	number                              int64
	key, token                          pgtype.UUID
	fence                               int64
	state, effect, fingerprintVersion   int16
	recoveryAttempts                    int32
	maybeRan                            bool
	fingerprint, envelope               []byte
	parent                              pgtype.UUID
	createdAt, leaseUntil, expiresAt    pgtype.Timestamptz
	firstSent, replayUntil, answerUntil pgtype.Timestamptz
	status                              pgtype.Int4
	route                               pgtype.Text
	memo                                []byte
	now                                 pgtype.Timestamptz
	synchronous                         bool
}

// outlined is the number of targets that a statement with /*outline*/ fills, and the number before them.
const outlined = 17

// targets are a record's number, the time now, its own columns in the order of query/columns, and
// whether commits wait for a standby. They are all possible columns in one slice, and a caller that
// needs fewer cuts the slice.
func (c *columns) targets() []any {
	return []any{
		&c.number, &c.now,
		&c.key, &c.fence, &c.state, &c.effect, &c.recoveryAttempts, &c.maybeRan, &c.parent,
		&c.createdAt, &c.firstSent, &c.leaseUntil, &c.expiresAt, &c.replayUntil, &c.answerUntil,
		&c.status, &c.route,
		&c.token, &c.fingerprintVersion, &c.fingerprint, &c.memo,
		&c.envelope,
		&c.synchronous,
	}
}

func (c *columns) found() found {
	f := found{Record: c.record(), synchronous: c.synchronous}
	if err := c.damage(); err != nil {
		f.damage = fmt.Errorf("%w: record %v: %w", store.ErrRecordUnreadable, f.ID, err)
	}
	return f
}

// record returns the record of the row. It is of use only where damage returns nil, and for lists.
func (c *columns) record() store.Record {
	r := store.Record{
		ID:               c.key.Bytes,
		State:            store.State(c.state),   //nolint:gosec // damage bounds it
		Effect:           store.Effect(c.effect), //nolint:gosec // damage bounds it
		Token:            c.token.Bytes,
		Fence:            c.fence,
		Parent:           c.parent.Bytes,
		RecoveryAttempts: int(c.recoveryAttempts),
		MaybeRan:         c.maybeRan,
		Now:              fromTimestamp(c.now),
		CreatedAt:        fromTimestamp(c.createdAt),
		LeaseUntil:       fromTimestamp(c.leaseUntil),
		ExpiresAt:        fromTimestamp(c.expiresAt),
		FirstSent:        fromTimestamp(c.firstSent),
		ReplayUntil:      fromTimestamp(c.replayUntil),
		AnswerUntil:      fromTimestamp(c.answerUntil),
		Route:            c.route.String,
		Memo:             c.memo,
	}
	switch n := c.status.Int32 - failedAttemptsFrom; {
	case n >= 0 && c.state != int16(store.StateCompleted):
		r.FailedAttempts = int(n)
	case c.status.Valid:
		r.Answer = store.Answer{Status: int(c.status.Int32), Envelope: c.envelope}
	}
	if !r.AnswerUntil.IsZero() && !r.Now.Before(r.AnswerUntil) {
		r.Answer.Envelope = nil // not swept yet
	}
	if len(c.fingerprint) == len(r.Fingerprint.Sum) {
		r.Fingerprint.Version = uint8(c.fingerprintVersion) //nolint:gosec // damage bounds it
		copy(r.Fingerprint.Sum[:], c.fingerprint)
	}
	return r
}

// damage returns an error for a value in the row that no version of this package writes, or nil.
func (c *columns) damage() error {
	if err := c.stateDamage(); err != nil {
		return err
	}
	switch {
	case c.effect < 0 || c.effect > int16(store.Opaque):
		return fmt.Errorf("effect %d", c.effect)
	case c.fence < 1 || c.recoveryAttempts < 0:
		return fmt.Errorf("fence %d, %d recovery attempts", c.fence, c.recoveryAttempts)
	case c.state == int16(store.StateCompleted) && !(c.status.Valid && c.replayUntil.Valid):
		return errors.New("completed without a status or the end of its replays")
	}
	for _, t := range [...]pgtype.Timestamptz{c.now, c.createdAt, c.leaseUntil, c.expiresAt} {
		if !t.Valid || !readable(t) {
			return errors.New("a time is null or infinite")
		}
	}
	for _, t := range [...]pgtype.Timestamptz{c.firstSent, c.replayUntil, c.answerUntil} {
		if t.Valid && !readable(t) {
			return errors.New("a time is infinite")
		}
	}
	return c.fingerprintDamage()
}

func (c *columns) stateDamage() error {
	if c.state < int16(store.StateInProgress) || c.state > int16(store.StateCancelled) {
		return fmt.Errorf("state %d", c.state)
	}
	return nil
}

func (c *columns) fingerprintDamage() error {
	switch n := len(c.fingerprint); {
	case n == 0 && c.fingerprintVersion == 0: // a tombstone that was never claimed
		return nil
	case n != len(store.Fingerprint{}.Sum) || c.fingerprintVersion < 1 || c.fingerprintVersion > math.MaxUint8:
		return fmt.Errorf("fingerprint of version %d with %d bytes", c.fingerprintVersion, n)
	}
	return nil
}

// endOfYears is the end of the year 9999 in Unix seconds. JSON knows no later time.
const endOfYears = 253402300800

// readable reports whether t is a time that Go and JSON can have.
func readable(t pgtype.Timestamptz) bool {
	return t.InfinityModifier == pgtype.Finite && t.Time.Unix() < endOfYears
}

func fromTimestamp(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}
