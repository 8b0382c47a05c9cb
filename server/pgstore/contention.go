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

// A contention knows whether keys were lately used twice. An insert that fails where the
// key is taken is cheaper than one that passes it over, as long as that is rare: it fails
// all that is in its transaction, leaves a row for vacuum, and an error in the server's
// log. So after one, and those under way at that moment, for a second none does.
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
	return errors.As(err, &pgErr) && pgErr.Code == "23505" && pgErr.TableName == "idempotency" && strings.HasPrefix(pgErr.ConstraintName, keyConstraint)
}

// keyConstraint is what such an insert violates, or an index whose name begins with it,
// while another takes its place (reindex concurrently). The failure of another constraint
// is one of the work's.
const keyConstraint = "idempotency_pkey"
