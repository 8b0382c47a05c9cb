package pgkit_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// An Array is encoded as pgx encodes a slice, with no allocation for an element.
func TestArray(t *testing.T) {
	t.Parallel()
	const n = 64
	uuids, times, numbers := make([]pgtype.UUID, n), make([]pgtype.Timestamptz, n), make([]pgtype.Int4, n)
	bytes, byteas := make([][]byte, n), make(pgkit.Array[pgkit.Bytea], n)
	for i := 1; i < n; i++ { // the first of each is null
		uuids[i] = pgtype.UUID{Bytes: [16]byte{byte(i)}, Valid: true}
		times[i] = pgtype.Timestamptz{Time: time.Unix(int64(i), 0), Valid: true}
		numbers[i] = pgtype.Int4{Int32: int32(i), Valid: true}
		bytes[i] = make([]byte, i-1)
		byteas[i] = bytes[i]
	}
	spans, small := []time.Duration{0, time.Hour + time.Nanosecond}, []pgtype.Int2{{}, {Int16: 7, Valid: true}}
	m := pgtype.NewMap()
	for _, tt := range []struct {
		oid         uint32
		array, from any
	}{
		{pgtype.UUIDArrayOID, pgkit.Array[pgtype.UUID](uuids), uuids},
		{pgtype.TimestamptzArrayOID, pgkit.Array[pgtype.Timestamptz](times), times},
		{pgtype.Int4ArrayOID, pgkit.Array[pgtype.Int4](numbers), numbers},
		{pgtype.ByteaArrayOID, byteas, bytes},
		{pgtype.UUIDArrayOID, pgkit.ArrayOf(uuids), uuids},
		{pgtype.TimestamptzArrayOID, pgkit.ArrayOf(times), times},
		{pgtype.ByteaArrayOID, pgkit.ArrayOf(bytes), bytes},
		{pgtype.IntervalArrayOID, pgkit.ArrayOf(spans), spans},
		{pgtype.Int2ArrayOID, pgkit.ArrayOf(small), small},
		{pgtype.TextArrayOID, pgkit.ArrayOf([]string{"a"}), []string{"a"}},
		{pgtype.UUIDArrayOID, pgkit.Array[pgtype.UUID](nil), []pgtype.UUID(nil)},
		{pgtype.UUIDArrayOID, pgkit.Array[pgtype.UUID]{}, []pgtype.UUID{}},
	} {
		want, err := m.Encode(tt.oid, pgtype.BinaryFormatCode, tt.from, nil)
		require.NoError(t, err)
		got, err := m.Encode(tt.oid, pgtype.BinaryFormatCode, tt.array, nil)
		require.NoError(t, err)
		require.Equal(t, want, got, "%T", tt.array)
	}
}

// The number of allocations does not grow with the array. It is not parallel: it counts those of the process.
func TestArray_allocations(t *testing.T) { //nolint:paralleltest // see above
	m := pgtype.NewMap()
	buf := make([]byte, 0, 1<<16)
	for n, want := range map[int]float64{16: 4, 256: 4} {
		uuids, byteas := make(pgkit.Array[pgtype.UUID], n), make(pgkit.Array[pgkit.Bytea], n)
		for i := range n {
			uuids[i].Valid, byteas[i] = true, []byte("x")
		}
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			_, err := m.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, uuids, buf)
			require.NoError(t, err)
		}), want)
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			_, err := m.Encode(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, byteas, buf)
			require.NoError(t, err)
		}), want)
	}
}
