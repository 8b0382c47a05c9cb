package pgkit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SendBatch sends the queries of batch in one round trip, as one READ COMMITTED transaction: all of
// it becomes durable, or nothing. The batch itself is not used up. SendBatch calls its functions
// with the results, in the caller's goroutine, possibly before the commit has succeeded. The commit
// was sent by then: a function cannot prevent it, and the error of a function leaves the fate
// unknown. Errors are those of [Do].
func SendBatch(ctx context.Context, w *Writer, batch *pgx.Batch) error {
	conn, err := w.acquire(ctx)
	if err != nil {
		return err
	}
	c := &calls{ended: make(chan error, 1), left: make(chan struct{})}
	if !stays(ctx) {
		c.next = make(chan *call)
	}
	defer close(c.left)
	_, err = finish(ctx, w, conn, c.next, func(ctx context.Context, conn *pgx.Conn) (struct{}, error) {
		if err := NameQueries(ctx, conn, batch.QueuedQueries); err != nil {
			return struct{}{}, err
		}
		if err := Name(ctx, conn, Hear); err != nil {
			return struct{}{}, &nothingChanged{err}
		}
		s := sessionOf(conn.PgConn())
		s.refused = false
		copied := new(pgx.Batch)
		if s.needsBlock() {
			copied.Queue("begin isolation level read committed")
		}
		for _, q := range batch.QueuedQueries {
			copied.Queue(q.SQL, q.Arguments...).Fn = c.of(s, q.Fn)
		}
		copied.Queue(Hear) // whatever the queries set
		if s.needsBlock() {
			copied.Queue("commit")
		}
		return struct{}{}, committed(conn.SendBatch(ctx, copied))
	})
	return err
}

// calls take the functions of a batch to the goroutine of its caller, one after the other.
type calls struct {
	next  chan *call // nil if that goroutine sends the batch itself
	ended chan error // of size 1
	left  chan struct{}
}

// errLeft ends the functions of a batch whose caller has gone.
var errLeft = errors.New("the caller has left")

// of returns a function that gets the result of a query, and has fn called with it. The error of
// fn must not be taken for the server's: the server commits the batch although fn returns an error.
func (c *calls) of(s *session, fn func(pgx.BatchResults) error) func(pgx.BatchResults) error {
	if fn == nil {
		return nil
	}
	return func(results pgx.BatchResults) error {
		rows, err := results.Query()
		err = c.make(&call{fn, result{results, rows, err}, c.ended})
		if err != nil && !s.refused {
			return fmt.Errorf("%w: a function of the batch: %w", ErrFateUnknown, err)
		}
		return err
	}
}

// make returns the error of the function, or errLeft if it panics or its caller has gone.
func (c *calls) make(next *call) error {
	if c.next == nil {
		return next.fn(&next.result)
	}
	select {
	case c.next <- next:
		return <-c.ended
	case <-c.left:
		return errLeft
	}
}

// A call is one of calls.
type call struct {
	fn     func(pgx.BatchResults) error
	result result
	ended  chan error
}

func (c *call) make() {
	err := errLeft // a panic takes the caller away
	defer func() { c.ended <- err }()
	err = c.fn(&c.result)
}

// A result is a query's, for its function.
type result struct {
	pgx.BatchResults

	rows pgx.Rows
	err  error
}

func (r *result) Query() (pgx.Rows, error) { return r.rows, r.err }

func (r *result) Exec() (pgconn.CommandTag, error) {
	r.rows.Close()
	return r.rows.CommandTag(), r.rows.Err()
}

func (r *result) QueryRow() pgx.Row { return r }

// Scan implements [pgx.Row].
func (r *result) Scan(into ...any) error {
	_, err := pgx.CollectOneRow(r.rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, row.Scan(into...) })
	return err
}
