package pgkit

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// An Array is a Postgres array of one dimension. pgx encodes it without reflection, and without an
// allocation for each element. *T must implement the interface of pgx's codec for the element, as
// the types of pgtype do.
type Array[T any] []T

// Dimensions implements [pgtype.ArrayGetter].
func (a Array[T]) Dimensions() []pgtype.ArrayDimension {
	if a == nil {
		return nil
	}
	return []pgtype.ArrayDimension{{Length: int32(len(a)), LowerBound: 1}} //nolint:gosec // a flush has few
}

// Index implements [pgtype.ArrayGetter].
func (a Array[T]) Index(i int) any { return &a[i] }

// IndexType implements [pgtype.ArrayGetter].
func (a Array[T]) IndexType() any { return new(T) }

// ArrayOf returns a slice as an [Array], where pgx would encode it by reflection.
func ArrayOf[T any](values []T) any {
	switch values := any(values).(type) {
	case []pgtype.UUID:
		return Array[pgtype.UUID](values)
	case []pgtype.Timestamptz:
		return Array[pgtype.Timestamptz](values)
	case []pgtype.Int2:
		return Array[pgtype.Int2](values)
	case []time.Duration:
		intervals := make(Array[pgtype.Interval], len(values))
		for i, d := range values {
			intervals[i] = Interval(d)
		}
		return intervals
	case [][]byte:
		byteas := make(Array[Bytea], len(values))
		for i, b := range values {
			byteas[i] = b
		}
		return byteas
	}
	return values
}

// Interval is d as an element of an [Array].
func Interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}

// A Bytea is a bytea in an [Array]. nil is null.
type Bytea []byte

// BytesValue implements [pgtype.BytesValuer].
func (b *Bytea) BytesValue() ([]byte, error) { return *b, nil }

// registerArrays tells m which types of Postgres the arrays have. The exec modes that do not ask the
// server go by the Go type.
func registerArrays(m *pgtype.Map) {
	m.RegisterDefaultPgType(Array[pgtype.UUID](nil), "_uuid")
	m.RegisterDefaultPgType(Array[pgtype.Timestamptz](nil), "_timestamptz")
	m.RegisterDefaultPgType(Array[pgtype.Interval](nil), "_interval")
	m.RegisterDefaultPgType(Array[pgtype.Int2](nil), "_int2")
	m.RegisterDefaultPgType(Array[pgtype.Int4](nil), "_int4")
	m.RegisterDefaultPgType(Array[pgtype.Text](nil), "_text")
	m.RegisterDefaultPgType(Array[Bytea](nil), "_bytea")
}
