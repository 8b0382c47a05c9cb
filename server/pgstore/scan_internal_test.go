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

func (r *fakeRow) FieldDescriptions() []pgconn.FieldDescription { return r.fields }
func (r *fakeRow) RawValues() [][]byte                          { return r.values }

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

func TestScan_bothFormats(t *testing.T) {
	for name, format := range map[string]int16{"text": pgtype.TextFormatCode, "binary": pgtype.BinaryFormatCode} {
		t.Run(name, func(t *testing.T) {
			i, f, err := scanNumberedFound(rowOf(t, format))
			require.NoError(t, err)
			require.Equal(t, 0, i)
			require.Equal(t, found{Record: scanned, synchronous: true}, f)
		})
	}
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

// A column can have a wider or narrower type, by somebody's change.
func TestScan_otherTypes(t *testing.T) {
	row := rowOf(t, pgtype.BinaryFormatCode)
	row.set(t, 0, pgtype.Int4OID, int32(1))
	row.set(t, 4, pgtype.Int4OID, int32(2))
	row.set(t, 16, pgtype.VarcharOID, scanned.Route)
	i, f, err := scanNumberedFound(row)
	require.NoError(t, err)
	require.Equal(t, 0, i)
	require.Equal(t, found{Record: scanned, synchronous: true}, f)
}

func TestScan_refuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, r *fakeRow)
		says   string
	}{
		"a column too few":  {func(_ *testing.T, r *fakeRow) { r.fields, r.values = r.fields[1:], r.values[1:] }, "22 columns"},
		"values without":    {func(_ *testing.T, r *fakeRow) { r.fields = r.fields[1:] }, "described 22"},
		"null as a fence":   {func(_ *testing.T, r *fakeRow) { r.values[3] = nil }, "c3"},
		"a short value":     {func(_ *testing.T, r *fakeRow) { r.values[2] = r.values[2][1:] }, "c2"},
		"a type of another": {func(t *testing.T, r *fakeRow) { r.set(t, 3, pgtype.TextOID, "three") }, "c3"},
	} {
		t.Run(name, func(t *testing.T) {
			row := rowOf(t, pgtype.BinaryFormatCode)
			c.change(t, row)
			_, _, err := scanNumberedFound(row)
			require.ErrorContains(t, err, c.says)
		})
	}
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

// BenchmarkScan reads one row, as a replay does. It compares plans made once with plans made for each row, as pgx
// makes them.
func BenchmarkScan(b *testing.B) {
	row := rowOf(b, pgtype.BinaryFormatCode)
	types := pgtype.NewMap()
	b.Run("plans=once", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := scanNumberedFound(row); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plans=each", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c := new(columns)
			for i, target := range c.targets() {
				if err := types.PlanScan(columnTypes[i], row.fields[i].Format, target).Scan(row.values[i], target); err != nil {
					b.Fatal(err)
				}
			}
			if err := c.found().damage; err != nil {
				b.Fatal(err)
			}
		}
	})
}
