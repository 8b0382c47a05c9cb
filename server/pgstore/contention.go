package pgstore

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// contentionLasts is how long a [contention] is expected to go on after it was seen.
const contentionLasts = time.Second

// A contention knows whether keys were lately used twice. An insert that fails on a taken key is
// cheaper than an insert that skips a taken key, as long as duplicates are rare. Each failure fails
// its whole transaction, leaves a row for vacuum, and leaves an error in the server's log. So for a
// second after a failure no such insert is sent. Only inserts that are running at that moment may
// still fail.
//
// It is safe for concurrent use.
type contention struct{ until atomic.Pointer[time.Time] } // nil: it was never seen

func (c *contention) note() {
	until := time.Now().Add(contentionLasts)
	c.until.Store(&until)
}

func (c *contention) lately() bool {
	until := c.until.Load()
	return until != nil && time.Until(*until) > 0
}

// isTaken reports that err is an insert's of a key that there is.
func isTaken(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "23505" {
		return false
	}
	return ofWorker(pgErr) || (pgErr.TableName == "idempotency" && strings.HasPrefix(pgErr.ConstraintName, keyConstraint))
}

// ofWorker reports that the error comes from a worker of Citus. The coordinator passes on its code and
// text, and not the names of table and constraint.
func ofWorker(err *pgconn.PgError) bool {
	return err.Routine == "ReportResultError" && err.TableName == "" && err.ConstraintName == ""
}

// keyConstraint is the constraint that such an insert violates. It can also violate an index whose
// name begins with that name, while another index replaces the constraint's (reindex concurrently).
// The failure of another constraint belongs to the work.
const keyConstraint = "idempotency_pkey"
