package pgstore

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// firstRows are the rows of a statement that was sent together with BEGIN. As pgx
// does with those of a Query, they end where nothing more can be read: the
// connection is of no use before.
type firstRows struct {
	pgx.Rows

	batch pgx.BatchResults
	err   error // of the batch
}

func (r *firstRows) Close() {
	r.Rows.Close()
	r.err = r.batch.Close()
}

// Err is the rows' own error if they have one: the error of the batch is the same.
func (r *firstRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

func (r *firstRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *firstRows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.Close()
	}
	return err
}

func (r *firstRows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.Close()
	}
	return values, err
}

// A firstRow is one of firstRows, for QueryRow.
type firstRow struct{ rows pgx.Rows }

var errDriverBytes = errors.New("pgstore: cannot scan into *pgtype.DriverBytes from QueryRow")

// Scan is as that of the [pgx.Row] of a QueryRow.
func (r firstRow) Scan(dest ...any) error {
	defer r.rows.Close()
	for _, d := range dest {
		if _, ok := d.(*pgtype.DriverBytes); ok { // it would hold memory that is used again
			return errDriverBytes
		}
	}
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// firstResults are the results of a handler's batch that was sent together with
// BEGIN. The transaction is not the batch's to hand out.
type firstResults struct{ pgx.BatchResults }

func (firstResults) Tx() pgx.Tx { return nil }
