package pgstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/store"
)

// A fakeRow is a row as it comes from a connection.
type fakeRow struct {
	pgx.CollectableRow

	fields []pgconn.FieldDescription
	values [][]byte
}

// Scan implements [pgx.CollectableRow].
func (r *fakeRow) Scan(targets ...any) error {
	types := pgtype.NewMap()
	for i, target := range targets {
		if err := types.Scan(r.fields[i].DataTypeOID, r.fields[i].Format, r.values[i], target); err != nil {
			return err
		}
	}
	return nil
}

// columnTypes are those of columns' targets.
var columnTypes = [...]uint32{
	pgtype.Int8OID, pgtype.TimestamptzOID,
	pgtype.UUIDOID, pgtype.Int8OID, pgtype.Int2OID, pgtype.Int2OID, pgtype.Int4OID, pgtype.BoolOID, pgtype.UUIDOID,
	pgtype.TimestamptzOID, pgtype.TimestamptzOID, pgtype.TimestamptzOID, pgtype.TimestamptzOID, pgtype.TimestamptzOID, pgtype.TimestamptzOID,
	pgtype.Int4OID, pgtype.TextOID,
	pgtype.UUIDOID, pgtype.Int2OID, pgtype.ByteaOID, pgtype.ByteaOID,
	pgtype.ByteaOID,
	pgtype.BoolOID,
}

// set makes column i another value, of another type.
func (r *fakeRow) set(tb testing.TB, i int, oid uint32, value any) {
	tb.Helper()
	raw, err := pgtype.NewMap().Encode(oid, r.fields[i].Format, value, nil)
	require.NoError(tb, err)
	r.fields[i].DataTypeOID, r.values[i] = oid, raw
}

var scanned = store.Record{
	ID: store.ID{1}, Token: store.Token{2}, Fence: 3, State: store.StateCompleted, Effect: store.Keyed,
	RecoveryAttempts: 4, MaybeRan: true, Fingerprint: store.Fingerprint{Version: 1, Sum: [32]byte{5}}, Parent: store.ID{7},
	CreatedAt: at(6), FirstSent: at(5), LeaseUntil: at(7), ExpiresAt: at(9), ReplayUntil: at(8), Now: at(7),
	Answer: store.Answer{Status: 200, Envelope: []byte("answer")}, Route: "POST /charge", Memo: []byte{9},
}

func at(second int64) time.Time { return time.Unix(1_800_000_000+second, 0).UTC() }

// rowOf is the row that scanned comes from, with its number, in the format.
func rowOf(tb testing.TB, format int16) *fakeRow {
	tb.Helper()
	r := new(fakeRow)
	s := scanned
	for i, value := range []any{
		int64(1), s.Now,
		[16]byte(s.ID), s.Fence, int16(s.State), int16(s.Effect), int32(s.RecoveryAttempts), s.MaybeRan, [16]byte(s.Parent), //nolint:gosec // small
		s.CreatedAt, s.FirstSent, s.LeaseUntil, s.ExpiresAt, s.ReplayUntil, nil,
		int32(s.Answer.Status), s.Route, //nolint:gosec // small
		[16]byte(s.Token), int16(s.Fingerprint.Version), s.Fingerprint.Sum[:], s.Memo,
		s.Answer.Envelope,
		true,
	} {
		r.fields = append(r.fields, pgconn.FieldDescription{Name: "c" + strconv.Itoa(i), Format: format})
		r.values = append(r.values, nil)
		r.set(tb, i, columnTypes[i], value)
	}
	return r
}

// The answer stays valid after its row, although the connection reuses the row's memory.
func TestScan_keepsNothingOfTheRow(t *testing.T) {
	row := rowOf(t, pgtype.BinaryFormatCode)
	_, f, err := scanNumberedFound(row)
	require.NoError(t, err)
	for _, value := range row.values {
		clear(value)
	}
	require.Equal(t, scanned, f.Record)
}

// A row can be readable and still hold values that no statement writes.
func TestScan_damage(t *testing.T) {
	infinite := pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}
	for name, c := range map[string]struct {
		change func(t *testing.T, r *fakeRow)
		says   string
	}{
		"no such state":                {func(t *testing.T, r *fakeRow) { r.set(t, 4, pgtype.Int2OID, int16(7)) }, "state 7"},
		"state 0":                      {func(t *testing.T, r *fakeRow) { r.set(t, 4, pgtype.Int2OID, int16(0)) }, "state 0"},
		"no such effect":               {func(t *testing.T, r *fakeRow) { r.set(t, 5, pgtype.Int2OID, int16(9)) }, "effect 9"},
		"fence 0":                      {func(t *testing.T, r *fakeRow) { r.set(t, 3, pgtype.Int8OID, int64(0)) }, "fence 0"},
		"recovery attempts below none": {func(t *testing.T, r *fakeRow) { r.set(t, 6, pgtype.Int4OID, int32(-1)) }, "-1 recovery attempts"},
		"null as a time":               {func(_ *testing.T, r *fakeRow) { r.values[9] = nil }, "null or infinite"},
		"no end":                       {func(t *testing.T, r *fakeRow) { r.set(t, 12, pgtype.TimestamptzOID, infinite) }, "null or infinite"},
		"first sent at no time":        {func(t *testing.T, r *fakeRow) { r.set(t, 10, pgtype.TimestamptzOID, infinite) }, "infinite"},
		"replayed for ever":            {func(t *testing.T, r *fakeRow) { r.set(t, 13, pgtype.TimestamptzOID, infinite) }, "infinite"},
		"later than any time of JSON": {func(t *testing.T, r *fakeRow) {
			r.set(t, 12, pgtype.TimestamptzOID, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
		}, "null or infinite"},
		"completed without a status":         {func(_ *testing.T, r *fakeRow) { r.values[15] = nil }, "without a status"},
		"completed without a time of replay": {func(_ *testing.T, r *fakeRow) { r.values[13] = nil }, "without a status"},
		"a short fingerprint":                {func(_ *testing.T, r *fakeRow) { r.values[19] = r.values[19][1:] }, "31 bytes"},
		"no fingerprint of a version":        {func(_ *testing.T, r *fakeRow) { r.values[19] = nil }, "0 bytes"},
		"a fingerprint of no version":        {func(t *testing.T, r *fakeRow) { r.set(t, 18, pgtype.Int2OID, int16(0)) }, "version 0"},
		"a version of two bytes":             {func(t *testing.T, r *fakeRow) { r.set(t, 18, pgtype.Int2OID, int16(256)) }, "version 256"},
	} {
		t.Run(name, func(t *testing.T) {
			row := rowOf(t, pgtype.BinaryFormatCode)
			c.change(t, row)
			i, f, err := scanNumberedFound(row)
			require.NoError(t, err, "the rows of others can be read")
			require.Equal(t, 0, i)
			require.Equal(t, scanned.ID, f.ID)
			require.ErrorIs(t, f.damage, store.ErrRecordUnreadable)
			require.ErrorContains(t, f.damage, c.says)
			require.ErrorContains(t, f.damage, scanned.ID.String())
		})
	}
}
