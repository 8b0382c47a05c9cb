package pgstore

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// contentionLasts is how long a [contention] is expected to go on after it was seen.
const contentionLasts = time.Second

// A contention knows whether keys were lately used twice. An insert that fails where the
// key is taken is cheaper than one that passes it over, as long as that is rare: it fails all that is in its
// transaction, leaves a row for vacuum, and an error in the server's log. So at
// most one a second does.
//
// It is safe for concurrent use.
type contention struct{ until atomic.Int64 } // by UnixNano

func (c *contention) note() { c.until.Store(time.Now().Add(contentionLasts).UnixNano()) }

func (c *contention) lately() bool { return time.Now().UnixNano() < c.until.Load() }

// isTaken reports that err is an insert's of a key that there is.
func isTaken(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "23505" && pgErr.TableName == "idempotency" && pgErr.ConstraintName == keyConstraint
}

// keyConstraint is what such an insert violates. The failure of another is one of the
// work's.
const keyConstraint = "idempotency_pkey"
