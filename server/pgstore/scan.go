package pgstore

import (
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// scanRow reads a row whose columns are those of a record from the one with number first on. It is
// pgx's Scan, except for when plans are made. Scan makes plans for each statement anew, which for
// one row takes as long as reading the row.
func scanRow(row pgx.CollectableRow, first int, targets []any) error {
	values, fields := row.RawValues(), row.FieldDescriptions()
	if len(values) != len(targets) || len(fields) != len(targets) {
		return fmt.Errorf("a record's row has %d columns, described %d, want %d", len(values), len(fields), len(targets))
	}
	plans := columnPlans()[first:]
	for i, target := range targets {
		if err := plans[i].of(&fields[i], target).Scan(values[i], target); err != nil {
			return pgx.ScanArgError{ColumnIndex: i, FieldName: fields[i].Name, Err: err}
		}
	}
	return nil
}

// A columnPlan is how a column is read, in each format by its number in the protocol.
type columnPlan struct {
	oid     uint32
	formats [2]pgtype.ScanPlan
}

func (p *columnPlan) of(field *pgconn.FieldDescription, target any) pgtype.ScanPlan {
	if field.DataTypeOID != p.oid { // somebody altered the table
		return pgtype.NewMap().PlanScan(field.DataTypeOID, field.Format, target)
	}
	return p.formats[field.Format]
}

// columnPlans are safe for concurrent use: a plan does not keep the values that it reads.
var columnPlans = sync.OnceValue(func() []columnPlan {
	types := pgtype.NewMap()
	all := make([]columnPlan, len(columnTypes))
	for i, target := range new(columns).targets() {
		all[i].oid = columnTypes[i]
		for format := range all[i].formats {
			all[i].formats[format] = types.PlanScan(columnTypes[i], int16(format), target) //nolint:gosec // 0 or 1
		}
	}
	return all
})
