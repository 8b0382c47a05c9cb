package pgstore

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/server"
)

// scanRecord reads the columns that the statements return for a record, in
// their order.
func scanRecord(row pgx.CollectableRow) (server.Record, error) {
	c := new(columns)
	all := c.targets()
	if err := scanRow(row, 1, all[1:len(all)-1]); err != nil {
		return server.Record{}, err
	}
	return c.record()
}

// A found is a record, and whether the server's commits wait for a standby.
type found struct {
	server.Record

	synchronous bool
}

func scanFound(row pgx.CollectableRow) (found, error) {
	c := new(columns)
	if err := scanRow(row, 1, c.targets()[1:]); err != nil {
		return found{}, err
	}
	return c.found()
}

// scanNumberedFound is scanFound for a record with the number of its key, counted
// from 1, in front.
func scanNumberedFound(row pgx.CollectableRow) (i int, f found, err error) {
	c := new(columns)
	if err := scanRow(row, 0, c.targets()); err != nil {
		return -1, f, err
	}
	f, err = c.found()
	return int(c.number) - 1, f, err
}

// columns takes one row.
type columns struct {
	number                              int64
	key, token                          pgtype.UUID
	fence                               int64
	state, effect, fingerprintVersion   int16
	deaths                              int32
	maybeRan                            bool
	fingerprint, envelope               []byte
	createdAt, leaseUntil, expiresAt    pgtype.Timestamptz
	firstSent, replayUntil, answerUntil pgtype.Timestamptz
	status                              pgtype.Int4
	route                               pgtype.Text
	memo                                []byte
	now                                 pgtype.Timestamptz
	synchronous                         bool
}

// columnTypes are those of columns' targets.
var columnTypes = [...]uint32{
	pgtype.Int8OID,
	pgtype.UUIDOID, pgtype.UUIDOID, pgtype.Int8OID, pgtype.Int2OID, pgtype.Int2OID, pgtype.Int4OID, pgtype.BoolOID, pgtype.Int2OID, pgtype.ByteaOID,
	pgtype.TimestamptzOID, pgtype.TimestamptzOID, pgtype.TimestamptzOID, pgtype.TimestamptzOID, pgtype.TimestamptzOID, pgtype.TimestamptzOID, pgtype.Int4OID, pgtype.ByteaOID,
	pgtype.TextOID, pgtype.ByteaOID, pgtype.TimestamptzOID,
	pgtype.BoolOID,
}

// targets are a record's number, its own columns, and whether commits wait for a standby:
// all that there can be, in one slice that whoever needs fewer cuts.
func (c *columns) targets() []any {
	return []any{
		&c.number,
		&c.key, &c.token, &c.fence, &c.state, &c.effect, &c.deaths, &c.maybeRan, &c.fingerprintVersion, &c.fingerprint,
		&c.createdAt, &c.firstSent, &c.leaseUntil, &c.expiresAt, &c.replayUntil, &c.answerUntil, &c.status, &c.envelope,
		&c.route, &c.memo, &c.now,
		&c.synchronous,
	}
}

func (c *columns) found() (found, error) {
	r, err := c.record()
	return found{r, c.synchronous}, err
}

// record refuses what no version of this package writes.
func (c *columns) record() (server.Record, error) {
	if c.state < int16(server.StateInProgress) || c.state > int16(server.StateCancelled) || c.effect < 0 || c.effect > int16(server.Opaque) {
		return server.Record{}, fmt.Errorf("record %v: state %d, effect %d", server.ID(c.key.Bytes), c.state, c.effect)
	}
	for _, t := range []pgtype.Timestamptz{c.now, c.createdAt, c.leaseUntil, c.expiresAt} {
		if !t.Valid || t.InfinityModifier != pgtype.Finite {
			return server.Record{}, fmt.Errorf("record %v: a time is null or infinite", server.ID(c.key.Bytes))
		}
	}
	r := server.Record{
		ID:          c.key.Bytes,
		State:       server.State(c.state),   //nolint:gosec // bounded above
		Effect:      server.Effect(c.effect), //nolint:gosec // bounded above
		Token:       c.token.Bytes,
		Fence:       c.fence,
		Deaths:      int(c.deaths),
		MaybeRan:    c.maybeRan,
		Now:         fromTimestamp(c.now),
		CreatedAt:   fromTimestamp(c.createdAt),
		LeaseUntil:  fromTimestamp(c.leaseUntil),
		ExpiresAt:   fromTimestamp(c.expiresAt),
		FirstSent:   fromTimestamp(c.firstSent),
		ReplayUntil: fromTimestamp(c.replayUntil),
		AnswerUntil: fromTimestamp(c.answerUntil),
		Route:       c.route.String,
		Memo:        c.memo,
	}
	if c.status.Valid {
		r.Answer = server.Answer{Status: int(c.status.Int32), Envelope: c.envelope}
	}
	if !r.AnswerUntil.IsZero() && !r.Now.Before(r.AnswerUntil) {
		r.Answer.Envelope = nil // the sweep has not come yet
	}
	if len(c.fingerprint) == 0 {
		return r, nil // a tombstone that was never claimed
	}
	if len(c.fingerprint) != len(r.Fingerprint.Sum) || c.fingerprintVersion < 0 || c.fingerprintVersion > 255 {
		return r, fmt.Errorf("record %v: fingerprint of version %d with %d bytes", r.ID, c.fingerprintVersion, len(c.fingerprint))
	}
	r.Fingerprint.Version = uint8(c.fingerprintVersion)
	copy(r.Fingerprint.Sum[:], c.fingerprint)
	return r, nil
}

func fromTimestamp(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}
